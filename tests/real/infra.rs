//! Runs the checks of the oldest and the newest Ray on every shipped cluster file, and compares what Ray reads from the
//! files with the intended fleet.

use marin_tui::config::{self, Env, Sources};
use marin_tui::model::Timestamp;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const INFRA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/infra");
const SLICES_V4: &[u32] = &[16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
const SLICES_V5P: &[u32] = &[8, 16, 32, 64, 128, 256, 512, 1024, 2048];
const SLICES_LITE: &[u32] = &[8, 16, 32, 64, 128, 256];

/// Accelerator, runtime version, size of the base worker, slice sizes, chips per host.
type Tpu = (&'static str, &'static str, u32, &'static [u32], u32);
const V4: Tpu = ("v4", "tpu-ubuntu2204-base", 8, SLICES_V4, 4);
const V5E: Tpu = ("v5litepod", "v2-alpha-tpuv5-lite", 4, SLICES_LITE, 4);
const V5P: Tpu = ("v5p", "v2-alpha-tpuv5", 8, SLICES_V5P, 4);
const V6E: Tpu = ("v6e", "v2-alpha-tpuv6e", 4, SLICES_LITE, 4);
const V6E_SERVE: Tpu = ("v6e", "v2-alpha-tpuv6e", 8, &[], 8);

/// File, `cluster_name`, region, zone, TPU, its name in node types, minimum of base workers, slice sizes with a
/// minimum.
type Cluster =
    (&'static str, &'static str, &'static str, &'static str, Tpu, &'static str, u32, &'static [(u32, u32)]);
const FLEET: &[Cluster] = &[
    ("marin-us-central2", "marin-us-central2", "us-central2", "us-central2-b", V4, "v4", 4, &[]),
    (
        "marin-us-central2-staging",
        "marin-us-central2-staging",
        "us-central2",
        "us-central2-b",
        V4,
        "v4",
        0,
        &[],
    ),
    (
        "marin-us-central1",
        "marin-us-central1",
        "us-central1",
        "us-central1-a",
        V5P,
        "v5p",
        1,
        &[(8, 12), (16, 1), (32, 1), (64, 1)],
    ),
    ("marin-big-run", "marin-big-run", "us-central2", "us-central2-b", V4, "v4", 0, &[]),
    ("marin-eu-west4", "marin-eu-west4", "europe-west4", "europe-west4-b", V5E, "v5e", 4, &[(128, 1)]),
    ("marin-us-west4", "marin-us-west4", "us-west4", "us-west4-a", V5E, "v5e", 0, &[]),
    ("marin-us-east1", "marin-us-east1-d", "us-east1", "us-east1-d", V6E, "v6e", 0, &[(128, 8)]),
    ("marin-us-east5", "marin-us-east5", "us-east5", "us-east5-b", V6E, "v6e", 0, &[(128, 8)]),
    ("marin-us-east5-a", "marin-us-east5-a", "us-east5", "us-east5-a", V5P, "v5p", 8, &[(64, 4)]),
    ("marin-eu-west4-a", "marin-eu-west4-a", "europe-west4", "europe-west4-a", V6E, "v6e", 0, &[(128, 2)]),
    (
        "marin-us-east5-b-vllm",
        "marin-us-east5-b-vllm",
        "us-east5",
        "us-east5-b",
        V6E_SERVE,
        "v6e-serve",
        2,
        &[],
    ),
    ("marin-eu-west4-vllm", "marin-eu-west4-vllm", "europe-west4", "europe-west4-b", V5E, "v5e", 2, &[]),
    ("marin-us-central2-vllm", "marin-us-central2-vllm", "us-central2", "us-central2-b", V4, "v4", 2, &[]),
    (
        "marin-us-east1-d-vllm",
        "marin-us-east1-d-vllm",
        "us-east1",
        "us-east1-d",
        V6E_SERVE,
        "v6e-serve",
        2,
        &[],
    ),
];

/// The node types of a cluster that Ray is expected to read.
fn types(tpu: Tpu, name: &str, min: u32, kept: &[(u32, u32)]) -> Value {
    let (accelerator, runtime, base, slices, chips) = tpu;
    let worker = |size: u32, min: u32| {
        json!({
            "min": min, "max": 1024, "resources": {"CPU": 120, "TPU": chips}, "kind": "tpu",
            "accelerator": format!("{accelerator}-{size}"), "runtime": runtime, "preemptible": true,
        })
    };
    let mut all = json!({
        "head_default": {
            "min": 0, "max": 0, "resources": {"CPU": 0, "head_node": 1}, "kind": "compute", "accelerator": null,
            "runtime": null, "preemptible": null,
        },
        "tpu_worker": worker(base, min),
    });
    for &size in slices {
        let min = kept.iter().find(|(slice, _)| *slice == size).map_or(0, |(_, n)| *n);
        all[format!("tpu_slice_{name}_{size}")] = worker(size, min);
    }
    all
}

/// What this Ray version reads from every file.
fn understood(version: &str) -> Value {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/target").into(), PathBuf::from);
    let mut files: Vec<PathBuf> = [INFRA.into(), format!("{INFRA}/examples")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|e| e.unwrap().path())
        .filter(|f| f.extension().is_some_and(|e| e == "yaml"))
        .filter(|f| !f.to_string_lossy().contains("template") && !f.ends_with("clusters.yaml"))
        .collect();
    files.sort();
    assert_eq!(files.len(), FLEET.len() + 2, "{files:?}");
    let python = target.join(format!("ray-{version}/bin/python"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/infra/accepts.py");
    let output = Command::new(&python).arg(script).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn ray_accepts_and_understands(version: &str) {
    let all = understood(version);
    for &(file, name, region, zone, tpu, generation, min, kept) in FLEET {
        let seen = &all[format!("{INFRA}/{file}.yaml")];
        assert_eq!(seen["cluster_name"], name);
        assert_eq!(
            (&seen["provider"]["region"], &seen["provider"]["availability_zone"]),
            (&json!(region), &json!(zone))
        );
        assert_eq!(seen["provider"]["project_id"], "hai-gcp-models");
        assert_eq!(seen["types"], types(tpu, generation, min, kept), "{file}");
        let is = |end: &str| {
            seen["image"].as_str().unwrap() == format!("{region}-docker.pkg.dev/hai-gcp-models/marin/{end}")
        };
        let staging = file.ends_with("-staging");
        assert!(is(match () {
            () if staging => "marin_cluster_test:latest",
            () if file.ends_with("-vllm") => "marin_vllm:latest",
            () => "marin_cluster:latest",
        }));
        let setup = seen["setup"].to_string();
        let own = setup.contains("--secret=RAY_AUTH_TOKEN ");
        assert!(own != staging && setup.contains("auth_token"), "only staging has another token: {setup}");
    }
    // An update compares the file with what Ray writes to the head: nothing differs.
    for (file, seen) in all.as_object().unwrap() {
        let env = Env::new(&[("HOME", "/nowhere")], "/nowhere");
        let sources = Sources { infra: Some(file.into()), ..Sources::default() };
        let config = config::load(&sources, &env, Timestamp::now()).unwrap();
        let spec = config.entries.iter().find_map(config::Entry::cluster).unwrap();
        let changes = config::drift(spec, seen["prepared"].to_string().as_bytes()).unwrap();
        assert_eq!(changes, [], "{file} in Ray {version}");
    }
    let local = &all[format!("{INFRA}/examples/local.yaml")];
    assert_eq!(local["provider"]["type"], "local");
    let gcp = &all[format!("{INFRA}/examples/gcp.yaml")];
    assert_eq!(gcp["types"]["worker"]["kind"], "compute");
}

#[test]
fn the_newest_ray_accepts_every_file() {
    ray_accepts_and_understands("2.60.0");
}

#[test]
fn the_oldest_ray_accepts_every_file() {
    ray_accepts_and_understands("2.53.0");
}
