//! Runs models that TVM Classic compiled: packages of `tvmc compile`, libraries of `export_library`, and executables of
//! the virtual machine.
//!
//! ```no_run
//! use tvm_classic::{Device, GraphExecutor, Module, Tensor};
//!
//! # fn main() -> tvm_classic::Result<()> {
//! let model = Module::load("model.tar")?;
//! let mut executor = GraphExecutor::new(&model, &[Device::cpu()])?;
//! let x = Tensor::from_slice(&[0.5f32; 16], &[1, 16], Device::cpu())?;
//! executor.set_input("x", &x)?;
//! executor.run()?;
//! println!("{:?}", executor.output(0)?.to_vec::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! A model contains native code. Load models only from sources that you trust to run code.
//!
//! Executors and tensors can be sent to another thread. A [`Module`] and a [`PackedFunc`] are not `Send`, because they
//! may share the state of an object with other handles.

#![warn(missing_docs)]
// `build.rs` sets `tvm_classic_linked`. It cannot declare this name in a way that both old and new compilers accept.
#![allow(unknown_lints, unexpected_cfgs)]

mod bundle;
mod error;
mod executor;
mod function;
mod module;
pub mod sys;
mod tensor;
mod value;

pub use bundle::{Bundle, BundleApi, BundleTensor};
pub use error::{Error, Result};
pub use executor::{GraphExecutor, VirtualMachine};
pub use function::{Arguments, PackedFunc, TensorRef};
pub use module::Module;
pub use tensor::{DataType, Device, Element, Tensor};
pub use value::{Arg, Object, Value};
