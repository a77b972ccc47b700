//! Tensors, functions, libraries, and the errors of each kind. `TVM_TEST_KERNELS` is the library of `tests/runtime/kernels.c`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::{env, thread};

use tvm_classic::{
    sys, Arg, DataType, Device, Error, GraphExecutor, Module, PackedFunc, Result, Tensor, Value, VirtualMachine,
};

#[track_caller]
fn assert_fails<T>(result: Result<T>, kind: fn(String) -> Error, part: &str) {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => {
            let same = std::mem::discriminant(&error) == std::mem::discriminant(&kind(String::new()));
            assert!(same && error.to_string().contains(part), "{error:?}");
        }
    }
}

fn assert_send<T: Send>() {}

#[test]
fn executors_and_tensors_are_sent() {
    assert_send::<Tensor>();
    assert_send::<GraphExecutor>();
    assert_send::<VirtualMachine>();
    assert_send::<Error>();
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len() as i64], Device::cpu()).unwrap()
}

#[test]
fn tensors_are_copied() {
    let numbers = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut tensor = Tensor::from_slice(&numbers, &[2, 3], Device::cpu()).unwrap();
    assert_eq!((tensor.shape(), tensor.len(), tensor.byte_len().unwrap()), (&[2i64, 3][..], 6, 24));
    assert_eq!((tensor.dtype().to_string().as_str(), tensor.device()), ("float32", Device::cpu()));
    assert_eq!(format!("{tensor:?}"), "Tensor([2, 3], float32, Device(DLDevice { device_type: 1, device_id: 0 }))");
    let copy = tensor.to(Device::cpu()).unwrap();
    tensor.copy_from_slice(&[7.0f32; 6]).unwrap();
    assert_eq!((copy.to_vec().unwrap(), tensor.to_vec().unwrap()), (numbers.to_vec(), vec![7.0f32; 6]));
    unsafe { tensor.as_mut_slice::<f32>().unwrap()[1] = 8.0 };
    assert_eq!(unsafe { tensor.as_slice::<f32>() }.unwrap()[..3], [7.0, 8.0, 7.0]);
    let zeros = Tensor::zeros(&[], i64::data_type(), Device::cpu()).unwrap();
    assert_eq!((zeros.to_vec::<i64>().unwrap(), zeros.is_empty()), (vec![0], false));
    assert!(Tensor::zeros(&[0, 5], u8::data_type(), Device::cpu()).unwrap().is_empty());
    assert_eq!(DataType::new(0, 8, 4).to_string(), "int8x4");
    assert_fails(tensor.to_vec::<i32>(), Error::Argument, "elements of float32, not of int32");
    assert_fails(tensor.copy_from_slice(&[1.0f32]), Error::Argument, "has 6 elements, not 1");
    assert_fails(unsafe { tensor.as_slice::<f64>() }.map(drop), Error::Argument, "not of float64");
    assert_fails(Tensor::from_slice(&numbers, &[-6], Device::cpu()), Error::Runtime, "");
    assert_fails(Tensor::zeros(&[1], f32::data_type(), Device::new(99, 0)), Error::Runtime, "");
}

/// The data type of a Rust type, as a method for short tests.
trait HasType: tvm_classic::Element {
    fn data_type() -> DataType {
        Self::DATA_TYPE
    }
}
impl<T: tvm_classic::Element> HasType for T {}

#[test]
fn dlpack_tensors_are_shared() {
    let tensor = vector(&[1.0, 2.0, 3.0]);
    let data = unsafe { tensor.as_slice::<f32>() }.unwrap().as_ptr();
    let exported = tensor.into_dlpack().unwrap();
    let imported = unsafe { Tensor::from_dlpack(exported) }.unwrap();
    assert_eq!(unsafe { imported.as_slice::<f32>() }.unwrap().as_ptr(), data);
    unsafe extern "C" fn free(tensor: *mut sys::DLManagedTensor) {
        (*(*tensor).manager_ctx.cast::<AtomicUsize>()).fetch_add(1, Ordering::SeqCst);
        drop(Box::from_raw(tensor));
    }
    let (freed, mut elements) = (AtomicUsize::new(0), [1i32, 2, 3, 4]);
    let (mut shape, mut strides) = ([2i64, 2], [1i64, 2]);
    let strided = Box::into_raw(Box::new(sys::DLManagedTensor {
        dl_tensor: sys::DLTensor {
            data: elements.as_mut_ptr().cast(),
            device: sys::DLDevice { device_type: 1, device_id: 0 },
            ndim: 2,
            dtype: sys::DLDataType { code: 0, bits: 32, lanes: 1 },
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        },
        manager_ctx: (&freed as *const AtomicUsize as *mut AtomicUsize).cast(),
        deleter: Some(free),
    }));
    let transposed = unsafe { Tensor::from_dlpack(strided) }.unwrap();
    assert_eq!(transposed.to_vec::<i32>().unwrap(), [1, 3, 2, 4]);
    assert_fails(unsafe { transposed.as_slice::<i32>() }.map(drop), Error::Argument, "has strides");
    drop(transposed);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn values_pass_through_functions() {
    let echo = PackedFunc::from_fn(|arguments| {
        Ok(match arguments.int(0)? {
            0 => Value::Null,
            1 => Value::Int(arguments.int(1)?),
            2 => Value::Float(arguments.float(1)?),
            3 => Value::Str(arguments.text(1)?),
            4 => Value::Bytes(arguments.bytes(1)?.to_vec()),
            5 => Value::Tensor(arguments.tensor(1)?.to(Device::cpu())?),
            _ => Value::Int(arguments.len() as i64),
        })
    })
    .unwrap();
    let call = |number: i64, argument| echo.call(&[number.into(), argument]);
    assert!(matches!(call(0, Arg::Null), Ok(Value::Null)));
    assert_eq!(call(1, (-5i32).into()).unwrap().into_int(), Ok(-5));
    assert_eq!(call(1, true.into()).unwrap().into_float(), Ok(1.0));
    assert_eq!(call(2, 0.25f32.into()).unwrap().into_float(), Ok(0.25));
    assert_eq!(call(3, "text".into()).unwrap().into_string(), Ok("text".to_string()));
    assert!(matches!(call(4, [1u8, 0, 2][..].into()), Ok(Value::Bytes(bytes)) if bytes == [1, 0, 2]));
    assert!(matches!(call(4, [][..].into()), Ok(Value::Bytes(bytes)) if bytes.is_empty()));
    let tensor = vector(&[1.5]);
    assert_eq!(call(5, (&tensor).into()).unwrap().into_tensor().unwrap().to_vec::<f32>(), Ok(vec![1.5]));
    assert_eq!(echo.call(&[Arg::Int(9); 20]).unwrap().into_int(), Ok(20));
    assert_fails(call(1, "text".into()), Error::Runtime, "argument 1 is not an integer");
    assert_fails(echo.call(&[Arg::Int(1)]), Error::Runtime, "argument 1 is missing; there are 1");
    assert_fails(call(3, "a\0b".into()), Error::Argument, "contains a zero");
    assert_fails(call(1, 1.into()).unwrap().into_string(), Error::Argument, "is an integer, not a text");
    assert_fails(call(0, 1.into()).unwrap().into_tensors(), Error::Argument, "is null, not a tensor or a tuple");
}

#[test]
fn functions_write_outputs_and_report_errors() {
    let fill = PackedFunc::from_fn(|arguments| {
        let value = arguments.float(1)? as f32;
        let values = vec![value; arguments.tensor(0)?.len()];
        arguments.write(0, &values)?;
        Ok(Value::Null)
    })
    .unwrap();
    let tensor = vector(&[0.0; 3]);
    fill.call(&[(&tensor).into(), 2.5.into()]).unwrap();
    fill.call(&[Arg::Lent(&tensor), 3.5.into()]).unwrap();
    assert_eq!(tensor.to_vec::<f32>(), Ok(vec![3.5; 3]));
    let panics = PackedFunc::from_fn(|_| panic!("broken by design")).unwrap();
    assert_fails(panics.call(&[]), Error::Runtime, "a Rust function panicked: broken by design");
    let fails = PackedFunc::from_fn(|_| Err(Error::Argument("wrong \0 number".into()))).unwrap();
    assert_fails(fails.call(&[]), Error::Runtime, "wrong   number");
}

#[test]
fn functions_are_registered_and_freed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let count = PackedFunc::from_fn(move |_| Ok(Value::Int(counted.fetch_add(1, Ordering::SeqCst) as i64))).unwrap();
    count.register_global("test.rust.count", false).unwrap();
    assert_fails(count.register_global("test.rust.count", false), Error::Runtime, "test.rust.count");
    count.register_global("test.rust.count", true).unwrap();
    drop(count);
    let other = || PackedFunc::global("test.rust.count").unwrap().call(&[]).unwrap().into_int().unwrap();
    assert_eq!((thread::spawn(other).join().unwrap(), calls.load(Ordering::SeqCst)), (0, 1));
    PackedFunc::remove_global("test.rust.count").unwrap();
    assert_eq!(Arc::strong_count(&calls), 1);
    assert_fails(
        PackedFunc::global("test.rust.count"),
        Error::Missing,
        "there is no global function 'test.rust.count'",
    );
}

#[test]
fn libraries_are_called() {
    let path = match env::var("TVM_TEST_KERNELS") {
        Ok(path) => path,
        Err(_) => return,
    };
    let library = Module::load(&path).unwrap();
    let add = library.function("add").unwrap();
    let (a, b, c) = (vector(&[1.0, 2.0]), vector(&[3.0, 4.0]), vector(&[0.0, 0.0]));
    drop(library);
    add.call(&[(&a).into(), Arg::Lent(&b), (&c).into()]).unwrap();
    assert_eq!(c.to_vec::<f32>(), Ok(vec![4.0, 6.0]));
    assert_fails(add.call(&[(&a).into()]), Error::Runtime, "expected 3 arguments, got 1");
    assert_fails(add.call(&[(&a).into(), (&b).into(), (&vector(&[0.0])).into()]), Error::Runtime, "add");
    let library = Module::load(&path).unwrap();
    assert_eq!(library.type_key(), Ok("library".to_string()));
    assert_fails(library.function("nobody"), Error::Missing, "has no function 'nobody'");
    let cpu = [Device::cpu()];
    assert_fails(GraphExecutor::new(&library, &cpu), Error::Argument, "does not run a module of type library");
    assert_fails(VirtualMachine::new(&library, &cpu), Error::Argument, "does not run a module of type library");
    assert_fails(GraphExecutor::from_graph("{\"nodes\": 3}", &library, cpu[0]), Error::Runtime, "");
}

#[test]
fn files_that_cannot_be_loaded_are_errors() {
    assert_fails(Module::load("/nowhere/model.so"), Error::Runtime, "cannot load library");
    assert_fails(Module::load("/nowhere/model.tar"), Error::Runtime, "cannot load");
    assert_fails(Module::load("model.onnx"), Error::Runtime, "is not a library");
    assert_fails(Module::load("a\0.so"), Error::Argument, "contains a zero");
}

#[test]
fn devices_are_found() {
    assert_eq!(Device::cpu().exists(), Ok(true));
    Device::cpu().synchronize().unwrap();
    assert_fails(Device::new(99, 0).synchronize(), Error::Runtime, "");
}
