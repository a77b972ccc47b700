//! Opens or links a bundle, compares its outputs with files, makes wrong calls and opens damaged copies.
//!
//! `TVM_TEST_BUNDLE` names a shared bundle, `TVM_TEST_DATA` the folder with inputs and outputs, `TVM_FUZZ_CASES` the number
//! of damaged copies and `TVM_TEST_SEED` their seed. Without a bundle there is nothing to do.

use std::path::PathBuf;
use std::{env, fs, process};

use tvm_classic::{Bundle, Error};

fn bundle() -> Option<PathBuf> {
    env::var_os("TVM_TEST_BUNDLE").map(PathBuf::from)
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect(name))
}

fn floats(path: PathBuf) -> Vec<f32> {
    let bytes = fs::read(&path).unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn outputs_are_those_of_python() {
    let (path, data) = match (bundle(), env::var_os("TVM_TEST_DATA").map(PathBuf::from)) {
        (Some(path), Some(data)) => (path, data),
        _ => return,
    };
    let mut model = Bundle::open(path, "default").unwrap();
    for (i, input) in model.inputs().to_vec().iter().enumerate() {
        assert_eq!(model.input_index(&input.name).unwrap(), i);
        model.set_input(i, &floats(data.join(format!("input_{i}.bin"))), Some(&input.shape)).unwrap();
    }
    // The model may be used by another thread.
    let model = std::thread::spawn(move || model.run().map(|()| model)).join().unwrap().unwrap();
    for i in 0..model.outputs().len() {
        let found = model.output::<f32>(i).unwrap();
        let wanted = floats(data.join(format!("wanted_{i}.bin")));
        assert_eq!(found.len() as i64, model.output_shape(i).unwrap().iter().product::<i64>());
        assert!(found.iter().map(|x| x.to_bits()).eq(wanted.iter().map(|x| x.to_bits())));
    }
    println!("{} outputs are equal", model.outputs().len());
}

#[test]
fn wrong_calls_return_errors() {
    let path = match bundle() {
        Some(path) => path,
        None => return,
    };
    assert!(matches!(Bundle::open(&path, "other"), Err(Error::Library(text)) if text.contains("the model 'other'")));
    assert!(matches!(Bundle::open("missing.so", "default"), Err(Error::Library(_))));
    for _ in 0..number("TVM_FUZZ_CASES", 100) / 10 + 1 {
        let mut model = Bundle::open(&path, "default").unwrap();
        let argument =
            |result: tvm_classic::Result<()>| assert!(matches!(result, Err(Error::Argument(text)) if !text.is_empty()));
        argument(model.set_input(0, &[1u8], None));
        argument(model.set_input(0, &[1.0f32], None));
        argument(model.set_input(0, &[1.0f32], Some(&[1])));
        argument(model.set_input(
            0,
            &[] as &[f32],
            Some(&[i64::MAX, i64::MAX, 2, -1][..model.inputs()[0].shape.len()]),
        ));
        argument(model.set_input(usize::MAX, &[1.0f32], None));
        argument(model.run());
        argument(model.output::<f32>(0).map(drop));
        argument(model.output::<f64>(0).map(drop));
        argument(model.output_shape(77).map(drop));
        assert!(matches!(model.input_index("no such input"), Err(Error::Missing(_))));
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn damaged_bundles_return_errors() {
    let path = match bundle() {
        Some(path) => path,
        None => return,
    };
    let whole = fs::read(path).unwrap();
    let copy = env::temp_dir().join(format!("tvm-bundle-{}.so", process::id()));
    let mut random = Random(number("TVM_TEST_SEED", 1) | 1);
    for _ in 0..number("TVM_FUZZ_CASES", 100) {
        let mut bytes = whole.clone();
        match random.below(4) {
            0 => bytes.truncate(random.below(whole.len())),
            _ => (0..1 + random.below(4)).for_each(|_| {
                let at = random.below(whole.len());
                bytes[at] ^= 1 + random.below(255) as u8;
            }),
        }
        fs::write(&copy, &bytes).unwrap();
        match Bundle::open(&copy, "default") {
            Ok(_) => assert_eq!(bytes, whole),
            Err(error) => assert!(error.message().contains("the file is corrupt"), "{error}"),
        }
    }
    fs::remove_file(copy).unwrap();
}
