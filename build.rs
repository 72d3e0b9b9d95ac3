//! Generates the messages of Ray's GCS from `assets/ray/*.proto`, without a `protoc` on the machine.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=assets/ray");
    let files = protox::compile(["gcs.proto", "autoscaler.proto"], ["assets/ray"])?;
    // `Bytes` point into the response instead of copying it; the order of a map decides the order on the screen.
    prost_build::Config::new().bytes(["."]).btree_map(["."]).compile_fds(files)?;
    Ok(())
}
