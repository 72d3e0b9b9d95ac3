//! Fuzzes the parsers of files from other people: cluster YAML and `.marin.yaml`; see [`crate::model::fuzz`].

use super::{Env, Settings, claims, cluster, shared};
use crate::model::fuzz::fuzz;
use std::fs;
use std::path::Path;

/// The cluster files in the repository.
fn cluster_files() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = fs::read_dir(root.join("infra")).unwrap().map(|e| e.unwrap().path());
    let is_yaml = |p: &std::path::PathBuf| p.extension().is_some_and(|e| e == "yaml");
    let files = listed.filter(is_yaml).chain([root.join("tests/bed/cluster.yaml")]);
    files.map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn fuzz_cluster_yaml() {
    let (settings, env) = (Settings::default(), Env::default());
    fuzz(&cluster_files(), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match cluster::parse(&text, Path::new("a.yaml"), &settings, &env) {
            Ok(spec) => drop((spec.head_text(), claims::of_cluster(&spec, &text, &settings))),
            Err(e) => assert!(e.what().starts_with("a.yaml"), "{}", e.what()),
        }
    });
}

#[test]
fn fuzz_marin_yaml() {
    let secret = b"env:\n  WANDB_API_KEY: sesame-sesame\n  RAY_ADDRESS: \"http://x:8265\"\n  N: 1\n  T: true\n  E: ~\n";
    fuzz(&[secret.to_vec(), b"env: {A: [1]}\n".to_vec()], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(e) = shared::parse(&text, Path::new(".marin.yaml")) {
            assert!(!e.what().contains("sesame-sesame"), "an error shows a value: {}", e.what());
        }
    });
}
