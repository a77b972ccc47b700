//! Runs a model and compares its outputs with those that Python wrote, bit for bit.
//!
//! `TVM_TEST_MODEL` is the model. The folder `TVM_TEST_DATA` contains `inputs.txt` with a line for each input (its name and
//! its extents), and float32 data in `NAME.bin` and `output_0.bin`, `output_1.bin`, ... Without them there is nothing to do.

use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use tvm_classic::{Device, GraphExecutor, Module, Tensor, VirtualMachine};

fn read_floats(path: &Path) -> Vec<f32> {
    fs::read(path).unwrap().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn read_inputs(folder: &Path) -> Vec<(String, Tensor)> {
    let list = fs::read_to_string(folder.join("inputs.txt")).unwrap();
    let input = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_string();
        let shape: Vec<i64> = words.map(|word| word.parse().unwrap()).collect();
        let data = read_floats(&folder.join(format!("{name}.bin")));
        (name, Tensor::from_slice(&data, &shape, Device::cpu()).unwrap())
    };
    list.lines().map(input).collect()
}

fn run_graph(mut executor: GraphExecutor, inputs: &[(String, Tensor)]) -> Vec<Tensor> {
    assert_eq!(executor.input_names().unwrap(), inputs.iter().map(|input| input.0.clone()).collect::<Vec<_>>());
    for (name, tensor) in inputs {
        assert_eq!(executor.input_type(name).unwrap(), (tensor.shape().to_vec(), tensor.dtype()));
        executor.set_input(name, tensor).unwrap();
    }
    executor.run().unwrap();
    let outputs: Vec<Tensor> = (0..executor.num_outputs().unwrap()).map(|i| executor.output(i).unwrap()).collect();
    let mut again = vec![0.0f32; outputs[0].len()];
    executor.output_to_slice(0, &mut again).unwrap();
    assert_eq!(again, outputs[0].to_vec::<f32>().unwrap());
    outputs
}

fn run_machine(mut machine: VirtualMachine, inputs: &[(String, Tensor)]) -> Vec<Tensor> {
    assert_eq!(machine.input_names("main").unwrap(), inputs.iter().map(|input| input.0.clone()).collect::<Vec<_>>());
    let tensors: Vec<&Tensor> = inputs.iter().map(|input| &input.1).collect();
    machine.run(&tensors).unwrap()
}

#[test]
fn outputs_are_those_of_python() {
    let (path, folder) = match (env::var("TVM_TEST_MODEL"), env::var("TVM_TEST_DATA")) {
        (Ok(path), Ok(folder)) => (path, PathBuf::from(folder)),
        _ => return,
    };
    let inputs = read_inputs(&folder);
    let model = Module::load(&path).unwrap();
    // Executors and tensors move to another thread.
    let outputs = match model.type_key().unwrap().as_str() {
        "VMExecutable" => {
            let machine = VirtualMachine::new(&model, &[Device::cpu()]).unwrap();
            thread::spawn(move || run_machine(machine, &inputs)).join().unwrap()
        }
        _ => {
            let executor = GraphExecutor::new(&model, &[Device::cpu()]).unwrap();
            thread::spawn(move || run_graph(executor, &inputs)).join().unwrap()
        }
    };
    for (i, output) in outputs.iter().enumerate() {
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let wanted = read_floats(&folder.join(format!("output_{i}.bin")));
        assert_eq!(bits(output.to_vec().unwrap()), bits(wanted), "output {i}");
    }
    println!("{} outputs are equal", outputs.len());
}
