//! With the feature `linked`, links `libmodel.a` in the folder of the environment variable `BUNDLE_DIR`.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=BUNDLE_DIR");
    if env::var_os("CARGO_FEATURE_LINKED").is_some() {
        let folder = env::var("BUNDLE_DIR").expect("BUNDLE_DIR is the folder of libmodel.a");
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=static=model");
        println!("cargo:rustc-link-lib=m");
    }
}
