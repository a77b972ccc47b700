//! With `TVM_CLASSIC_LIB_DIR`, links with the library of the runtime in this folder. Without it, the crate opens the
//! library at run time.

use std::{env, path::Path};

fn main() {
    println!("cargo:rerun-if-env-changed=TVM_CLASSIC_LIB_DIR");
    if let Ok(folder) = env::var("TVM_CLASSIC_LIB_DIR") {
        let library = Path::new(&folder).join("libtvm_runtime.so");
        assert!(library.is_file(), "TVM_CLASSIC_LIB_DIR: there is no file {}", library.display());
        println!("cargo:rustc-cfg=tvm_classic_linked");
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=dylib=tvm_runtime");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
