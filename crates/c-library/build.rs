//! Gives the shared library its name for the loader, which has the version of the interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtailbound.so.0");
}
