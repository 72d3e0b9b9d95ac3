//! The generated messages in `src/proto/generated`.

use std::path::Path;
use std::{env, fs};

/// Generates the messages, and compares them with those in the repository. After a change of a `.proto` file:
/// `RECORD_PROTO=1 tests/run unit -E 'test(proto)'`.
#[test]
fn the_messages_are_those_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (kept, fresh) = (root.join("src/proto/generated"), tempfile::tempdir().unwrap());
    let files = ["gcs.proto", "autoscaler.proto", "runtime_metrics.proto", "telemetry.proto"];
    let files = protox::compile(files, ["assets/ray", "assets/tpu"].map(|dir| root.join(dir))).unwrap();
    let mut generator = prost_build::Config::new();
    // `Bytes` refer to the response instead of copying it; the order of a map determines the order on the screen.
    generator.bytes(["."]).btree_map(["."]).out_dir(fresh.path());
    generator.compile_fds(files).unwrap();
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    if env::var_os("RECORD_PROTO").is_some() {
        for name in names(fresh.path()) {
            fs::copy(fresh.path().join(&name), kept.join(&name)).unwrap();
        }
    }
    assert_eq!(names(&kept), names(fresh.path()));
    for name in names(&kept) {
        let read = |dir: &Path| fs::read_to_string(dir.join(&name)).unwrap();
        assert!(read(&kept) == read(fresh.path()), "{} is not up to date", name.display());
    }
}
