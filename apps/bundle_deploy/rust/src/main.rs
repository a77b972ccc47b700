//! Names a photo with a bundle: `classify model.so photo.ppm labels.txt`, or with the feature `linked`, whose program
//! contains the bundle, `classify photo.ppm labels.txt`.

#[path = "../../../../rust/examples/photo/mod.rs"]
mod photo;

use std::time::Instant;
use std::{env, process};

use photo::Answer;
use tvm_classic::Bundle;

const DYNAMIC_SIZE: i64 = 224;

#[cfg(feature = "linked")]
fn open(_files: &mut impl Iterator<Item = String>) -> Answer<Bundle> {
    Ok(unsafe { Bundle::linked(tvm_classic::linked_bundle!("tvm_bundle")) }?)
}

#[cfg(not(feature = "linked"))]
fn open(files: &mut impl Iterator<Item = String>) -> Answer<Bundle> {
    Ok(Bundle::open(
        files
            .next()
            .ok_or("expected model.so photo.ppm labels.txt")?,
        "default",
    )?)
}

fn classify() -> Answer<()> {
    let mut files = env::args().skip(1);
    let mut model = open(&mut files)?;
    let (path, labels) = (
        files.next().ok_or("expected a photo")?,
        files.next().ok_or("expected a file with names")?,
    );
    let shape: Vec<i64> = match model.inputs() {
        [input] if input.shape.len() == 4 => (0..4)
            .map(|i| {
                if input.shape[i] >= 0 {
                    input.shape[i]
                } else {
                    [1, 3, DYNAMIC_SIZE, DYNAMIC_SIZE][i]
                }
            })
            .collect(),
        _ => return Err("the input of the model is not a photo".into()),
    };
    let values = photo::prepare(
        &photo::read_ppm(&path)?,
        shape[2] as usize,
        shape[3] as usize,
    );
    model.set_input(0, &values, Some(&shape))?;
    let start = Instant::now();
    model.run()?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let (name, probability) = photo::name_of(&model.output::<f32>(0)?, &labels)?;
    println!("{path}: {name}, probability {probability:.4}, first run {milliseconds:.2} ms");
    Ok(())
}

fn main() {
    if let Err(error) = classify() {
        eprintln!("{error}");
        process::exit(1);
    }
}
