//! The graph executor and the virtual machine.

use crate::{Arg, DataType, Device, Element, Error, Module, PackedFunc, Result, Tensor, Value};

fn check_type(model: &Module, wanted: &str, runner: &str) -> Result<()> {
    match model.type_key()? {
        found if found == wanted => Ok(()),
        found => Err(Error::Argument(format!("{runner} does not run a module of type {found}"))),
    }
}

/// Runs a model without control flow.
#[derive(Debug)]
pub struct GraphExecutor {
    /// The factory, if the weights are part of the model.
    has_param: Option<PackedFunc>,
    module: Module,
    run: PackedFunc,
    set_input: PackedFunc,
    get_output: PackedFunc,
}

// The executor is the only owner of its module and of the functions with its state, and gives neither to anyone: only one
// thread can use them. It shares the library, which is not changed, and weights, which executors read only. The runtime
// counts references atomically. It is not `Sync`, because a run writes the memory of its values.
unsafe impl Send for GraphExecutor {}

impl GraphExecutor {
    /// An executor of a model that [`Module::load`] returned, with one device of each type that the model uses.
    pub fn new(model: &Module, devices: &[Device]) -> Result<GraphExecutor> {
        check_type(model, "GraphExecutorFactory", "the graph executor")?;
        let name = model.function("get_name")?.call(&[])?.into_string()?;
        let devices: Vec<Arg<'_>> = devices.iter().map(|&device| Arg::Device(device)).collect();
        let module = model.function(&name)?.call(&devices)?.into_module()?;
        GraphExecutor::of_module(module, Some(model.function("has_param")?))
    }

    /// An executor of a graph as JSON text and the library of its kernels; see [`GraphExecutor::load_params`].
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

    /// The inputs of the model, without the weights of its package.
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

    /// A copy of an output.
    pub fn output(&self, i: i64) -> Result<Tensor> {
        let output = self.output_in_place(i)?;
        output.to(output.device())
    }

    /// Reads the elements of an output.
    pub fn output_to_slice<T: Element>(&self, i: i64, elements: &mut [T]) -> Result<()> {
        self.output_in_place(i)?.copy_to_slice(elements)
    }
}

/// Runs a model with control flow or dynamic shapes.
#[derive(Debug)]
pub struct VirtualMachine {
    // The functions keep their modules: the executable and the machine.
    get_arity: PackedFunc,
    get_name: PackedFunc,
    set_input: PackedFunc,
    invoke: PackedFunc,
}

// As for the graph executor: the machine is the only owner of its module and of the functions with its state. It copies its
// inputs, and gives each result away. The executable is shared and is not changed.
unsafe impl Send for VirtualMachine {}

impl VirtualMachine {
    /// A machine for a model that [`Module::load`] returned, with one device of each type that the model uses.
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

    /// The names of the parameters of a function; `main` is the model.
    pub fn input_names(&self, function: &str) -> Result<Vec<String>> {
        let count = self.get_arity.call(&[function.into()])?.into_int()?;
        (0..count).map(|i| self.get_name.call(&[function.into(), i.into()])?.into_string()).collect()
    }

    /// The result of a function. Tensors among the arguments are copied.
    pub fn invoke(&mut self, function: &str, arguments: &[Arg<'_>]) -> Result<Value> {
        let mut all = vec![Arg::Str(function)];
        all.extend(arguments.iter().map(|&argument| match argument {
            Arg::Tensor(tensor) => Arg::Lent(tensor),
            other => other,
        }));
        self.set_input.call(&all)?;
        self.invoke.call(&all[..1])
    }

    /// The tensors of the result of `main` in order.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let inputs: Vec<Arg<'_>> = inputs.iter().map(|&tensor| Arg::Lent(tensor)).collect();
        self.invoke("main", &inputs)?.into_tensors()
    }
}
