//! Measures calls from Rust beside the same calls through the C interface: `cargo bench --bench overhead -- MODEL`
//!
//! Prints a line for each: what is called, nanoseconds through C, nanoseconds through Rust (the smallest of several means).

use std::os::raw::{c_int, c_void};
use std::time::Instant;
use std::{env, ptr};

use tvm_classic::sys::{code, functions, Handle, TVMValue};
use tvm_classic::{Arg, Device, GraphExecutor, Module, PackedFunc, Tensor};

const REPEATS: usize = 50;
const CALLS: u32 = 20_000;
const NAME: &[u8] = b"bench.rust.nothing\0";

fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let mean = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    std::iter::repeat_with(mean).take(REPEATS).fold(f64::INFINITY, f64::min)
}

unsafe extern "C" fn nothing(
    _: *mut TVMValue,
    _: *mut c_int,
    _: c_int,
    _: *mut TVMValue,
    _: *mut c_int,
    _: *mut c_void,
) -> c_int {
    0
}

fn through_c(function: Handle, values: &mut [TVMValue], codes: &mut [c_int]) -> f64 {
    let runtime = functions().unwrap();
    nanoseconds(|| {
        let (mut ret, mut kind) = (TVMValue { v_int64: 0 }, code::NULL);
        let count = values.len() as c_int;
        let status = unsafe {
            (runtime.TVMFuncCall)(function, values.as_mut_ptr(), codes.as_mut_ptr(), count, &mut ret, &mut kind)
        };
        assert_eq!(status, 0);
    })
}

fn main() {
    let path = match env::args().skip(1).find(|word| !word.starts_with("--")) {
        Some(path) => path,
        None => return,
    };
    let runtime = functions().unwrap();
    let mut made = ptr::null_mut();
    let status = unsafe { (runtime.TVMFuncCreateFromCFunc)(nothing, ptr::null_mut(), None, &mut made) };
    assert_eq!((status, unsafe { (runtime.TVMFuncRegisterGlobal)(NAME.as_ptr().cast(), made, 0) }), (0, 0));
    let empty = PackedFunc::global("bench.rust.nothing").unwrap();
    let c = through_c(made, &mut [], &mut []);
    println!("empty function {c:.1} {:.1}", nanoseconds(|| drop(empty.call(&[]).unwrap())));
    let tensor = Tensor::from_slice(&[0.0f32], &[1], Device::cpu()).unwrap();
    let mut values =
        [TVMValue { v_handle: tensor.as_ptr().cast() }, TVMValue { v_int64: 1 }, TVMValue { v_float64: 2.0 }];
    let c = through_c(made, &mut values, &mut [code::ARRAY, code::INT, code::FLOAT]);
    let arguments = [Arg::from(&tensor), 1i64.into(), 2.0f64.into()];
    println!("empty function of 3 arguments {c:.1} {:.1}", nanoseconds(|| drop(empty.call(&arguments).unwrap())));
    let model = Module::load(path).unwrap();
    let mut executor = GraphExecutor::new(&model, &[Device::cpu()]).unwrap();
    let factory =
        model.function(&model.function("get_name").unwrap().call(&[]).unwrap().into_string().unwrap()).unwrap();
    let other = factory.call(&[Device::cpu().into()]).unwrap().into_module().unwrap();
    let mut run = ptr::null_mut();
    let found = unsafe { (runtime.TVMModGetFunction)(other.as_handle(), b"run\0".as_ptr().cast(), 0, &mut run) };
    assert_eq!(found, 0);
    let c = through_c(run, &mut [], &mut []);
    println!("run of a model {c:.1} {:.1}", nanoseconds(|| executor.run().unwrap()));
    unsafe { (runtime.TVMFuncFree)(run) };
}
