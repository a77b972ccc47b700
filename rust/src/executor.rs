//! The graph executor and the virtual machine.

use crate::{Arg, DataType, Device, Element, Error, Module, PackedFunc, Result, Tensor, Value};

fn check_type(model: &Module, wanted: &str, runner: &str) -> Result<()> {
    match model.type_key()? {
        found if found == wanted => Ok(()),
        found => Err(Error::Argument(format!("{runner} does not run a module of type {found}"))),
    }
}

/// An executor for models without control flow.
#[derive(Debug)]
pub struct GraphExecutor {
    /// The function `has_param` of the factory, if the executor was created from a factory.
    has_param: Option<PackedFunc>,
    module: Module,
    run: PackedFunc,
    set_input: PackedFunc,
    get_output: PackedFunc,
}

// The executor is the only owner of its module and of the functions that access its state, and never hands them out, so
// only one thread can use them. It shares the library and the weights, which are read-only. The runtime counts references
// atomically. The executor is not `Sync`, because a run writes its memory.
unsafe impl Send for GraphExecutor {}

impl GraphExecutor {
    /// Creates an executor of a model that [`Module::load`] returned, with one device of each type that the model uses.
    pub fn new(model: &Module, devices: &[Device]) -> Result<GraphExecutor> {
        check_type(model, "GraphExecutorFactory", "the graph executor")?;
        let name = model.function("get_name")?.call(&[])?.into_string()?;
        let devices: Vec<Arg<'_>> = devices.iter().map(|&device| Arg::Device(device)).collect();
        let module = model.function(&name)?.call(&devices)?.into_module()?;
        GraphExecutor::of_module(module, Some(model.function("has_param")?))
    }

    /// Creates an executor from the JSON text of a graph and the library of its kernels. [`GraphExecutor::load_params`]
    /// sets the weights.
    pub fn from_graph(graph: &str, library: &Module, device: Device) -> Result<GraphExecutor> {
        let place = [Arg::from(device.device_type()), Arg::from(device.device_id())];
        let made = PackedFunc::global("tvm.graph_executor.create")?.call(&[
            graph.into(),
            library.into(),
            place[0],
            place[1],
        ])?;
        GraphExecutor::of_module(made.into_module()?, None)
    }

    fn of_module(module: Module, has_param: Option<PackedFunc>) -> Result<GraphExecutor> {
        let run = module.function("run")?;
        let set_input = module.function("set_input")?;
        let get_output = module.function("get_output")?;
        Ok(GraphExecutor { has_param, module, run, set_input, get_output })
    }

    fn number(&self, function: &str) -> Result<i64> {
        self.module.function(function)?.call(&[])?.into_int()
    }

    /// Sets weights from the bytes of a parameter file.
    pub fn load_params(&mut self, params: &[u8]) -> Result<()> {
        self.module.function("load_params")?.call(&[params.into()]).map(drop)
    }

    /// The names of the model's inputs, without the weights in its package.
    pub fn input_names(&self) -> Result<Vec<String>> {
        let get_name = self.module.function("get_input_name")?;
        let mut names = Vec::new();
        for i in 0..self.number("get_num_inputs")? {
            let name = get_name.call(&[i.into()])?.into_string()?;
            let is_param = match &self.has_param {
                Some(has_param) => has_param.call(&[name.as_str().into()])?.into_int()? != 0,
                None => false,
            };
            if !is_param {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The shape and the data type of an input.
    pub fn input_type(&self, name: &str) -> Result<(Vec<i64>, DataType)> {
        let input = self.module.function("get_input")?.call(&[name.into()])?.into_tensor()?;
        Ok((input.shape().to_vec(), input.dtype()))
    }

    /// The number of outputs.
    pub fn num_outputs(&self) -> Result<i64> {
        self.number("get_num_outputs")
    }

    /// Copies a tensor into an input.
    pub fn set_input(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        self.set_input.call(&[name.into(), Arg::Lent(tensor)]).map(drop)
    }

    /// Runs the model.
    pub fn run(&mut self) -> Result<()> {
        self.run.call(&[]).map(drop)
    }

    fn output_in_place(&self, i: i64) -> Result<Tensor> {
        self.get_output.call(&[i.into()])?.into_tensor()
    }

    /// Returns a copy of an output.
    pub fn output(&self, i: i64) -> Result<Tensor> {
        let output = self.output_in_place(i)?;
        output.to(output.device())
    }

    /// Copies the elements of an output into a slice.
    pub fn output_to_slice<T: Element>(&self, i: i64, elements: &mut [T]) -> Result<()> {
        self.output_in_place(i)?.copy_to_slice(elements)
    }
}

/// An executor for models with control flow or dynamic shapes.
#[derive(Debug)]
pub struct VirtualMachine {
    // The functions hold references to their modules: the executable and the virtual machine.
    get_arity: PackedFunc,
    get_name: PackedFunc,
    set_input: PackedFunc,
    invoke: PackedFunc,
}

// As for the graph executor, the virtual machine is the only owner of its module and of the functions that access its
// state. It copies its inputs and keeps no reference to its outputs. The executable is shared and read-only.
unsafe impl Send for VirtualMachine {}

impl VirtualMachine {
    /// Creates a virtual machine for a model that [`Module::load`] returned, with one device of each type that the model
    /// uses.
    pub fn new(executable: &Module, devices: &[Device]) -> Result<VirtualMachine> {
        const POOLED: i64 = 2;
        check_type(executable, "VMExecutable", "the virtual machine")?;
        let module = executable.function("vm_load_executable")?.call(&[])?.into_module()?;
        let places: Vec<Arg<'_>> = devices
            .iter()
            .flat_map(|device| [device.device_type().into(), device.device_id().into(), Arg::Int(POOLED)])
            .collect();
        module.function("init")?.call(&places)?;
        let set_input = module.function("set_input")?;
        let invoke = module.function("invoke")?;
        let get_arity = executable.function("get_function_arity")?;
        let get_name = executable.function("get_function_param_name")?;
        Ok(VirtualMachine { get_arity, get_name, set_input, invoke })
    }

    /// The names of the parameters of a function; the function `main` is the model.
    pub fn input_names(&self, function: &str) -> Result<Vec<String>> {
        let count = self.get_arity.call(&[function.into()])?.into_int()?;
        (0..count).map(|i| self.get_name.call(&[function.into(), i.into()])?.into_string()).collect()
    }

    /// Calls a function and returns its output. Tensor arguments are copied.
    pub fn invoke(&mut self, function: &str, arguments: &[Arg<'_>]) -> Result<Value> {
        let mut all = vec![Arg::Str(function)];
        all.extend(arguments.iter().map(|&argument| match argument {
            Arg::Tensor(tensor) => Arg::Lent(tensor),
            other => other,
        }));
        self.set_input.call(&all)?;
        self.invoke.call(&all[..1])
    }

    /// Calls `main` and returns the tensors of its output in order.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let inputs: Vec<Arg<'_>> = inputs.iter().map(|&tensor| Arg::Lent(tensor)).collect();
        self.invoke("main", &inputs)?.into_tensors()
    }
}
