//! Names a photo with a model that tvmc compiled.
//!
//! Run: `cargo run --release --example classify -- model.tar photo.ppm labels.txt`
//!
//! `model.tar` is a package of `tvmc compile`, or a library of `export_library`, for the graph executor or the virtual
//! machine. Its input is an ImageNet photo (1, 3, height, width). `photo.ppm` is a binary PPM file (P6). `labels.txt` has
//! the name of one class in each line.

use std::path::Path;
use std::time::Instant;
use std::{env, process};

mod photo;

use photo::{prepare, read_ppm, Answer, Photo};
use tvm_classic::{Device, GraphExecutor, Module, Tensor, VirtualMachine};

const RUNS: usize = 20;
const DYNAMIC_SIZE: usize = 224;

fn input_of(photo: &Photo, height: usize, width: usize) -> Answer<Tensor> {
    let shape = [1, 3, height as i64, width as i64];
    Ok(Tensor::from_slice(&prepare(photo, height, width), &shape, Device::cpu())?)
}

/// The scores, and the median time of several runs in milliseconds.
fn measure(mut run: impl FnMut() -> tvm_classic::Result<Tensor>) -> Answer<(Vec<f32>, f64)> {
    let mut output = run()?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        output = run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok((output.to_vec()?, times[RUNS / 2]))
}

fn run_graph(model: &Module, photo: &Photo) -> Answer<(Vec<f32>, f64)> {
    let mut executor = GraphExecutor::new(model, &[Device::cpu()])?;
    let names = executor.input_names()?;
    let name = match names.as_slice() {
        [name] => name,
        _ => return Err(format!("the model has {} inputs, not one photo", names.len()).into()),
    };
    match *executor.input_type(name)?.0.as_slice() {
        [1, 3, height, width] => executor.set_input(name, &input_of(photo, height as usize, width as usize)?)?,
        _ => return Err(format!("input '{name}' does not have the shape (1, 3, height, width) of a photo").into()),
    }
    measure(|| {
        executor.run()?;
        executor.output(0)
    })
}

fn run_machine(model: &Module, photo: &Photo) -> Answer<(Vec<f32>, f64)> {
    let mut machine = VirtualMachine::new(model, &[Device::cpu()])?;
    let input = input_of(photo, DYNAMIC_SIZE, DYNAMIC_SIZE)?;
    measure(|| Ok(machine.run(&[&input])?.remove(0)))
}

fn classify(package: &str, photo_path: &str, labels: &str) -> Answer<()> {
    let photo = read_ppm(photo_path)?;
    let model = Module::load(Path::new(package))?;
    let (scores, milliseconds) = match model.type_key()?.as_str() {
        "VMExecutable" => run_machine(&model, &photo)?,
        _ => run_graph(&model, &photo)?,
    };
    let (name, probability) = photo::name_of(&scores, labels)?;
    println!("{photo_path}: {name}, probability {probability:.4}, {milliseconds:.2} ms");
    Ok(())
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [package, photo, labels] => classify(package, photo, labels),
        _ => {
            eprintln!("usage: classify model.tar photo.ppm labels.txt");
            process::exit(2);
        }
    };
    if let Err(error) = done {
        eprintln!("{error}");
        process::exit(1);
    }
}
