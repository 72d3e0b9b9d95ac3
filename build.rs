//! Generates the messages of Ray's GCS and of libtpu from `assets/ray/*.proto` and `assets/tpu/*.proto`, without a
//! `protoc` on the machine.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=assets/ray");
    println!("cargo::rerun-if-changed=assets/tpu");
    let files = ["gcs.proto", "autoscaler.proto", "runtime_metrics.proto", "telemetry.proto"];
    let files = protox::compile(files, ["assets/ray", "assets/tpu"])?;
    // `Bytes` refer to the response instead of copying it; the order of a map determines the order on the screen.
    prost_build::Config::new().bytes(["."]).btree_map(["."]).compile_fds(files)?;
    Ok(())
}
