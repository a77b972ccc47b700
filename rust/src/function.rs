//! Packed functions: of modules, of the runtime, and implemented in Rust.

use std::any::Any;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::raw::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;

use crate::error::{check, text_at, Error, Result};
use crate::sys::{self, code, TVMValue};
use crate::value::{bytes_at, c_text, Packed};
use crate::{Arg, Element, Tensor, Value};

/// A packed function: its arguments and its return value have dynamic types.
///
/// It is neither `Send` nor `Sync`, because a function of an executor accesses the state of that executor.
pub struct PackedFunc {
    handle: NonNull<c_void>,
}

/// Calls with at most this many arguments do not allocate heap memory for them.
const IN_PLACE: usize = 8;

impl PackedFunc {
    /// Looks up a function in the global registry.
    pub fn global(name: &str) -> Result<PackedFunc> {
        let runtime = sys::functions()?;
        let mut found = std::ptr::null_mut();
        check(runtime, unsafe { (runtime.TVMFuncGetGlobal)(c_text(name)?.as_ptr(), &mut found) })?;
        let missing = || Error::Missing(format!("there is no global function '{name}'"));
        NonNull::new(found).map(|handle| PackedFunc { handle }).ok_or_else(missing)
    }

    /// Creates a packed function from a closure. A panic becomes an error of the caller. The runtime may call the closure
    /// from several threads.
    pub fn from_fn<F>(function: F) -> Result<PackedFunc>
    where
        F: Fn(&mut Arguments<'_>) -> Result<Value> + Send + Sync + 'static,
    {
        let runtime = sys::functions()?;
        let kept = Box::into_raw(Box::new(function));
        let mut made = std::ptr::null_mut();
        let status = unsafe {
            (runtime.TVMFuncCreateFromCFunc)(call_closure::<F>, kept.cast(), Some(free_closure::<F>), &mut made)
        };
        if status != 0 {
            // After an error, the runtime has not taken ownership of the closure.
            drop(unsafe { Box::from_raw(kept) });
        }
        check(runtime, status)?;
        unsafe { PackedFunc::from_handle(made) }
    }

    /// Registers the function under a global name. With `replace`, the name may already be in use.
    pub fn register_global(&self, name: &str, replace: bool) -> Result<()> {
        let runtime = sys::functions()?;
        let name = c_text(name)?;
        check(runtime, unsafe { (runtime.TVMFuncRegisterGlobal)(name.as_ptr(), self.as_ptr(), replace.into()) })
    }

    /// Removes a name from the global registry.
    pub fn remove_global(name: &str) -> Result<()> {
        let runtime = sys::functions()?;
        check(runtime, unsafe { (runtime.TVMFuncRemoveGlobal)(c_text(name)?.as_ptr()) })
    }

    /// # Safety
    /// `handle` is null or a function, and the caller transfers ownership of one reference.
    pub(crate) unsafe fn from_handle(handle: *mut c_void) -> Result<PackedFunc> {
        let none = || Error::Runtime("the runtime returned no function".into());
        NonNull::new(handle).map(|handle| PackedFunc { handle }).ok_or_else(none)
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.handle.as_ptr()
    }

    /// Calls the function. Native code is trusted not to access a tensor after the call unless it holds a reference to it.
    pub fn call(&self, arguments: &[Arg<'_>]) -> Result<Value> {
        let mut packed = Packed::new();
        if arguments.len() <= IN_PLACE {
            let mut values = [TVMValue { v_int64: 0 }; IN_PLACE];
            let mut codes = [code::NULL; IN_PLACE];
            for (i, argument) in arguments.iter().enumerate() {
                (values[i], codes[i]) = packed.put(argument)?;
            }
            return self.call_values(&mut values[..arguments.len()], &mut codes[..arguments.len()]);
        }
        let pairs: Result<Vec<_>> = arguments.iter().map(|argument| packed.put(argument)).collect();
        let (mut values, mut codes): (Vec<_>, Vec<_>) = pairs?.into_iter().unzip();
        self.call_values(&mut values, &mut codes)
    }

    fn call_values(&self, values: &mut [TVMValue], codes: &mut [c_int]) -> Result<Value> {
        let runtime = sys::functions()?;
        let count = c_int::try_from(values.len()).map_err(|_| Error::Argument("too many arguments".into()))?;
        let (mut ret, mut kind) = (TVMValue { v_int64: 0 }, code::NULL);
        check(runtime, unsafe {
            (runtime.TVMFuncCall)(self.as_ptr(), values.as_mut_ptr(), codes.as_mut_ptr(), count, &mut ret, &mut kind)
        })?;
        unsafe { Value::owned(ret, kind) }
    }
}

impl Drop for PackedFunc {
    fn drop(&mut self) {
        if let Ok(runtime) = sys::functions() {
            unsafe { (runtime.TVMFuncFree)(self.as_ptr()) };
        }
    }
}

impl fmt::Debug for PackedFunc {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PackedFunc({:p})", self.handle)
    }
}

/// A borrowed tensor argument of a function that is implemented in Rust.
pub struct TensorRef<'a> {
    tensor: ManuallyDrop<Tensor>,
    lent: PhantomData<&'a Tensor>,
}

impl Deref for TensorRef<'_> {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

/// The arguments of a function that is implemented in Rust.
pub struct Arguments<'a> {
    values: &'a [TVMValue],
    codes: &'a [c_int],
}

impl Arguments<'_> {
    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.values.len()
    }
    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns argument `i` if its type code is one of `wanted`, otherwise an error.
    fn get(&self, i: usize, wanted: &[c_int], name: &str) -> Result<(TVMValue, c_int)> {
        match (self.values.get(i), self.codes.get(i)) {
            (Some(&value), Some(&kind)) if wanted.contains(&kind) => Ok((value, kind)),
            (Some(_), _) => Err(Error::Argument(format!("argument {i} is not {name}"))),
            (None, _) => Err(Error::Argument(format!("argument {i} is missing; there are {}", self.len()))),
        }
    }

    /// Argument `i` as an integer.
    pub fn int(&self, i: usize) -> Result<i64> {
        let (value, _) = self.get(i, &[code::INT, code::UINT, code::BOOL], "an integer")?;
        Ok(unsafe { value.v_int64 })
    }
    /// Argument `i` as a number.
    pub fn float(&self, i: usize) -> Result<f64> {
        let (value, kind) = self.get(i, &[code::FLOAT, code::INT], "a number")?;
        Ok(unsafe {
            match kind {
                code::FLOAT => value.v_float64,
                _ => value.v_int64 as f64,
            }
        })
    }
    /// Argument `i` as a string.
    pub fn text(&self, i: usize) -> Result<String> {
        let (value, _) = self.get(i, &[code::STR], "a text")?;
        Ok(unsafe { text_at(value.v_str) })
    }
    /// Argument `i` as bytes.
    pub fn bytes(&self, i: usize) -> Result<&[u8]> {
        let (value, _) = self.get(i, &[code::BYTES], "bytes")?;
        Ok(unsafe { bytes_at(value) })
    }
    /// Argument `i` as a tensor.
    pub fn tensor(&self, i: usize) -> Result<TensorRef<'_>> {
        let (value, _) = self.get(i, &[code::ARRAY, code::DL_TENSOR], "a tensor")?;
        let tensor = ManuallyDrop::new(unsafe { Tensor::from_handle(value.v_handle.cast()) }?);
        Ok(TensorRef { tensor, lent: PhantomData })
    }
    /// Writes all elements of tensor argument `i`, an output of the function.
    pub fn write<T: Element>(&mut self, i: usize, elements: &[T]) -> Result<()> {
        self.tensor(i)?.write(elements)
    }
}

/// Writes the return value for the caller, which takes ownership of its references.
fn give(runtime: &sys::Functions, value: Value, ret: &mut TVMValue, kind: &mut c_int) -> Result<()> {
    let bytes = match &value {
        Value::Str(text) => Some((text.as_bytes(), code::STR)),
        Value::Bytes(bytes) => Some((bytes.as_slice(), code::BYTES)),
        _ => None,
    };
    if let Some((bytes, code)) = bytes {
        return check(runtime, unsafe {
            (runtime.TVMReturnBytes)(bytes.as_ptr().cast(), bytes.len(), code, ret, kind)
        });
    }
    let argument = match &value {
        Value::Int(number) => Arg::Int(*number),
        Value::Float(number) => Arg::Float(*number),
        Value::Tensor(tensor) => Arg::Tensor(tensor),
        Value::Module(module) => Arg::Module(module),
        Value::Function(function) => Arg::Function(function),
        Value::Object(object) => Arg::Object(object),
        Value::Device(device) => Arg::Device(*device),
        Value::DataType(dtype) => Arg::DataType(*dtype),
        Value::Null | Value::Str(_) | Value::Bytes(_) => Arg::Null,
    };
    (*ret, *kind) = Packed::new().put(&argument)?;
    std::mem::forget(value);
    Ok(())
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().map(|text| text.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a Rust function panicked: {}", text.unwrap_or_else(|| "(no text)".into()))
}

unsafe extern "C" fn call_closure<F>(
    values: *mut TVMValue,
    codes: *mut c_int,
    count: c_int,
    ret: *mut TVMValue,
    ret_code: *mut c_int,
    closure: *mut c_void,
) -> c_int
where
    F: Fn(&mut Arguments<'_>) -> Result<Value> + Send + Sync + 'static,
{
    // A panic must not unwind into the C caller. `AssertUnwindSafe` is correct: the closure is only borrowed, and locks
    // that it held are poisoned by the panic.
    let result = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
        let runtime = sys::functions()?;
        let count = usize::try_from(count).unwrap_or(0);
        let (values, codes): (&[TVMValue], &[c_int]) = match count {
            0 => (&[], &[]),
            _ => (std::slice::from_raw_parts(values, count), std::slice::from_raw_parts(codes, count)),
        };
        let value = (*closure.cast::<F>())(&mut Arguments { values, codes })?;
        give(runtime, value, &mut *ret, &mut *ret_code)
    }));
    let message = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error.message().to_string(),
        Err(panic) => panic_text(&*panic),
    };
    if let Ok(runtime) = sys::functions() {
        let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
        (runtime.TVMAPISetLastError)(text.as_ptr());
    }
    -1
}

unsafe extern "C" fn free_closure<F>(closure: *mut c_void) {
    // A panic of a destructor must not unwind into the C caller either.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(closure.cast::<F>()))));
}
