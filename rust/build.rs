//! Hands the pinned versions of Cargo.lock to the code, which reports them.

use std::fs;

fn main() {
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock lies beside Cargo.toml");
    for name in ["tokenizers", "minijinja"] {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let start = lock.find(&entry).expect("the lock file names every dependency") + entry.len();
        let version = lock[start..].split('"').next().unwrap_or_default();
        println!("cargo:rustc-env=VERSION_{}={version}", name.to_uppercase());
    }
}
