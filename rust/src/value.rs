//! Arguments and return values of functions.

use std::ffi::CString;
use std::os::raw::c_int;
use std::ptr::NonNull;

use crate::error::{check, text_at, Error, Result};
use crate::sys::{self, code, TVMByteArray, TVMValue};
use crate::{DataType, Device, Module, PackedFunc, Tensor};

/// An argument of a function.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Arg<'a> {
    /// No value.
    Null,
    /// An integer, or a Boolean as 0 or 1.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string without zero bytes.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A tensor. The function may keep a reference to it.
    Tensor(&'a Tensor),
    /// A tensor that is valid only during the call. A function that needs it later must copy it.
    Lent(&'a Tensor),
    /// A module.
    Module(&'a Module),
    /// A function.
    Function(&'a PackedFunc),
    /// An object of the virtual machine.
    Object(&'a Object),
    /// A device.
    Device(Device),
    /// A data type.
    DataType(DataType),
}

macro_rules! arguments {
    ($($type:ty => $make:expr;)*) => {
        $(impl<'a> From<$type> for Arg<'a> {
            fn from(value: $type) -> Arg<'a> {
                $make(value)
            }
        })*
    };
}
arguments! {
    i64 => Arg::Int; i32 => |number| Arg::Int(i64::from(number)); bool => |truth| Arg::Int(i64::from(truth));
    f64 => Arg::Float; f32 => |number| Arg::Float(f64::from(number));
    &'a str => Arg::Str; &'a [u8] => Arg::Bytes; &'a Tensor => Arg::Tensor; &'a Module => Arg::Module;
    &'a PackedFunc => Arg::Function; &'a Object => Arg::Object; Device => Arg::Device; DataType => Arg::DataType;
}

/// The arguments of one call in the form of the C interface. Short lists are stored inline, without heap memory.
pub(crate) struct Packed {
    texts: Vec<CString>,
    // Boxed, so that pointers to them in the values stay valid.
    #[allow(clippy::vec_box)]
    bytes: Vec<Box<TVMByteArray>>,
}

impl Packed {
    pub fn new() -> Packed {
        Packed { texts: Vec::new(), bytes: Vec::new() }
    }

    pub fn put(&mut self, argument: &Arg<'_>) -> Result<(TVMValue, c_int)> {
        let handle = |pointer: *mut std::os::raw::c_void| TVMValue { v_handle: pointer };
        Ok(match *argument {
            Arg::Null => (handle(std::ptr::null_mut()), code::NULL),
            Arg::Int(number) => (TVMValue { v_int64: number }, code::INT),
            Arg::Float(number) => (TVMValue { v_float64: number }, code::FLOAT),
            Arg::Str(text) => {
                self.texts.push(c_text(text)?);
                let kept = self.texts[self.texts.len() - 1].as_ptr();
                (TVMValue { v_str: kept }, code::STR)
            }
            Arg::Bytes(data) => {
                self.bytes.push(Box::new(TVMByteArray { data: data.as_ptr().cast(), size: data.len() }));
                let last = self.bytes.len() - 1;
                let kept: *mut TVMByteArray = &mut *self.bytes[last];
                (handle(kept.cast()), code::BYTES)
            }
            Arg::Tensor(tensor) => (handle(tensor.as_ptr().cast()), code::ARRAY),
            Arg::Lent(tensor) => (handle(tensor.as_ptr().cast()), code::DL_TENSOR),
            Arg::Module(module) => (handle(module.as_ptr()), code::MODULE),
            Arg::Function(function) => (handle(function.as_ptr()), code::FUNCTION),
            Arg::Object(object) => (handle(object.handle.as_ptr()), code::OBJECT),
            Arg::Device(device) => (TVMValue { v_device: device.0 }, code::DEVICE),
            Arg::DataType(dtype) => (TVMValue { v_type: dtype.0 }, code::DATA_TYPE),
        })
    }
}

pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Argument("a text contains a zero".into()))
}

/// An object of the virtual machine: a tuple, a value of an algebraic data type, or a closure.
#[derive(Debug)]
pub struct Object {
    handle: NonNull<std::os::raw::c_void>,
}

impl Object {
    fn is_adt(&self) -> Result<bool> {
        Ok(unsafe { (sys::functions()?.TVMObjectKind)(self.handle.as_ptr()) } == sys::OBJECT_ADT)
    }

    /// The tag of the constructor; 0 for a tuple.
    pub fn tag(&self) -> Result<i64> {
        match self.is_adt()? {
            true => Ok(unsafe { (sys::functions()?.TVMADTTag)(self.handle.as_ptr()) }),
            false => Err(Error::Argument("the object is neither a tuple nor an algebraic data type".into())),
        }
    }

    /// The fields of a tuple or of an algebraic data type. Tensor fields are copied, because two fields may refer to the
    /// same memory.
    pub fn fields(&self) -> Result<Vec<Value>> {
        let runtime = sys::functions()?;
        self.tag()?;
        let count = unsafe { (runtime.TVMADTSize)(self.handle.as_ptr()) };
        (0..count)
            .map(|index| {
                let (mut value, mut kind) = (TVMValue { v_int64: 0 }, code::NULL);
                check(runtime, unsafe { (runtime.TVMADTField)(self.handle.as_ptr(), index, &mut value, &mut kind) })?;
                match unsafe { Value::owned(value, kind) }? {
                    Value::Tensor(tensor) => Ok(Value::Tensor(tensor.to(tensor.device())?)),
                    other => Ok(other),
                }
            })
            .collect()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Ok(runtime) = sys::functions() {
            unsafe { (runtime.TVMObjectFree)(self.handle.as_ptr()) };
        }
    }
}

/// The return value of a function.
#[derive(Debug)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// An integer or a Boolean.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A tensor.
    Tensor(Tensor),
    /// A module.
    Module(Module),
    /// A function.
    Function(PackedFunc),
    /// An object of the virtual machine.
    Object(Object),
    /// A device.
    Device(Device),
    /// A data type.
    DataType(DataType),
}

impl Value {
    /// # Safety
    /// The value is the return value of a call, and the caller transfers ownership of its references.
    pub(crate) unsafe fn owned(value: TVMValue, kind: c_int) -> Result<Value> {
        let none = || Error::Runtime("the runtime returned a null reference".into());
        Ok(match kind {
            code::NULL => Value::Null,
            code::INT | code::UINT | code::BOOL => Value::Int(value.v_int64),
            code::FLOAT => Value::Float(value.v_float64),
            code::STR => Value::Str(text_at(value.v_str)),
            code::BYTES => Value::Bytes(bytes_at(value).to_vec()),
            code::ARRAY => Value::Tensor(Tensor::from_handle(value.v_handle.cast())?),
            code::MODULE => Value::Module(Module::from_handle(value.v_handle)?),
            code::FUNCTION => Value::Function(PackedFunc::from_handle(value.v_handle)?),
            code::OBJECT => Value::Object(Object { handle: NonNull::new(value.v_handle).ok_or_else(none)? }),
            code::DEVICE => Value::Device(Device(value.v_device)),
            code::DATA_TYPE => Value::DataType(DataType(value.v_type)),
            _ => return Err(Error::Runtime(format!("a function returned a value with the unknown type code {kind}"))),
        })
    }

    fn other<T>(&self, wanted: &str) -> Result<T> {
        let found = match self {
            Value::Null => "null",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Str(_) => "a text",
            Value::Bytes(_) => "bytes",
            Value::Tensor(_) => "a tensor",
            Value::Module(_) => "a module",
            Value::Function(_) => "a function",
            Value::Object(_) => "an object",
            Value::Device(_) => "a device",
            Value::DataType(_) => "a data type",
        };
        Err(Error::Argument(format!("the value is {found}, not {wanted}")))
    }

    /// The value as an integer.
    pub fn into_int(self) -> Result<i64> {
        match self {
            Value::Int(number) => Ok(number),
            other => other.other("an integer"),
        }
    }
    /// The value as a number.
    pub fn into_float(self) -> Result<f64> {
        match self {
            Value::Float(number) => Ok(number),
            Value::Int(number) => Ok(number as f64),
            other => other.other("a float"),
        }
    }
    /// The value as a string.
    pub fn into_string(self) -> Result<String> {
        match self {
            Value::Str(text) => Ok(text),
            other => other.other("a text"),
        }
    }
    /// The value as a tensor.
    pub fn into_tensor(self) -> Result<Tensor> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => other.other("a tensor"),
        }
    }
    /// The value as a module.
    pub fn into_module(self) -> Result<Module> {
        match self {
            Value::Module(module) => Ok(module),
            other => other.other("a module"),
        }
    }
    /// The value as a function.
    pub fn into_function(self) -> Result<PackedFunc> {
        match self {
            Value::Function(function) => Ok(function),
            other => other.other("a function"),
        }
    }
    /// All tensors of the value in order: the value itself, or the tensors of a tuple, including nested tuples.
    pub fn into_tensors(self) -> Result<Vec<Tensor>> {
        match self {
            Value::Tensor(tensor) => Ok(vec![tensor]),
            Value::Object(object) => {
                let parts: Result<Vec<Vec<Tensor>>> = object.fields()?.into_iter().map(Value::into_tensors).collect();
                Ok(parts?.into_iter().flatten().collect())
            }
            other => other.other("a tensor or a tuple"),
        }
    }
}

/// # Safety
/// The value has the code `BYTES`.
pub(crate) unsafe fn bytes_at<'a>(value: TVMValue) -> &'a [u8] {
    let bytes = &*value.v_handle.cast::<TVMByteArray>();
    match bytes.size {
        0 => &[],
        size => std::slice::from_raw_parts(bytes.data.cast(), size),
    }
}
