//! Packages and job commands compared with Ray itself: the package names that its Python code gives, and its own
//! command line.

use crate::bed::{Bed, Ray};
use marin_tui::ray::Folder;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Prints the URI of a directory's package and the files in its zip, as Ray's own code creates them.
const RAY_PACKAGING: &str = "
import json, sys, zipfile
from ray._private.runtime_env.packaging import get_uri_for_directory, _zip_files
root, excludes, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
print(get_uri_for_directory(root, True, excludes))
_zip_files(root, excludes, out, True)
print('\\n'.join(sorted(zipfile.ZipFile(out).namelist())))
";

fn python(version: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
    target.join(format!("ray-{version}/bin/python"))
}

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a directory that covers the syntax of ignore files.
fn tree(root: &Path) {
    put(
        root,
        ".gitignore",
        "*.log\n!keep.log\n/build\nout/\n# comment\n\n\\#odd\ncache/**/tmp\n[a-c]?.bin\n**/deep\nfoo/*\n",
    );
    put(root, "a/.rayignore", "secret*\n!secret.txt\nb/\n");
    put(root, "a/c/.gitignore", "*\n!x.py\n");
    for name in [
        "train.py",
        "x.log",
        "keep.log",
        "build/y",
        "a/build/y",
        "out/z",
        "a/out",
        "#odd",
        "cache/1/2/tmp",
        "cache/tmp",
        "a1.bin",
        "d1.bin",
        "p/deep/q",
        "foo/bar",
        "foo/bar2/baz",
        "a/secret.txt",
        "a/secrets",
        "a/b/c",
        "a/c/x.py",
        "a/c/y.py",
        "data/ünïcode name.txt",
        "data/.hidden",
        "venv/lib.py",
        "with space/ü",
    ] {
        put(root, name, name);
    }
    fs::create_dir_all(root.join("empty/nested")).unwrap();
    symlink("train.py", root.join("link.py")).unwrap();
    symlink("data", root.join("linked")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
}

#[test]
fn packages_are_named_and_filled_as_ray_does_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    tree(&root);
    let excludes: [&[&str]; 4] =
        [&[], &[".git", ".venv", "venv", "__pycache__"], &["data/", "!data/.hidden"], &["*"]];
    for version in ["2.60.0", "2.53.0"] {
        for list in excludes {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            let zip = dir.path().join("theirs.zip");
            let mut theirs = Command::new(python(version));
            theirs
                .args(["-c", RAY_PACKAGING])
                .arg(&root)
                .arg(serde_json::to_string(&list).unwrap())
                .arg(&zip);
            let out = theirs.output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let stdout = String::from_utf8(out.stdout).unwrap();
            let (uri, names) = stdout.split_once('\n').unwrap();
            let ours = Folder::survey(&root, &list).unwrap();
            let archive = zip::ZipArchive::new(std::io::Cursor::new(ours.zip(false).unwrap())).unwrap();
            let mut files: Vec<&str> = archive.file_names().collect();
            files.sort_unstable();
            assert_eq!(files, names.trim().lines().collect::<Vec<_>>(), "{version} {list:?}");
            assert_eq!(ours.uri, uri, "{version} {list:?}");
        }
    }
}

fn run(bed: Bed, args: &[&str]) -> Output {
    bed.program(args).output().unwrap()
}

#[test]
fn ray_itself_finds_what_we_uploaded() {
    let bed = Bed::restarted(Ray::Newest);
    bed.write(
        "/home/ray/jobs/dir/say.py",
        "import os, sys\nprint('says', os.environ['WORD'], flush=True)\nsys.exit(int(sys.argv[1]))\n",
    );
    // New at each run: the package of an earlier run is already uploaded.
    bed.write("/home/ray/jobs/dir/when", &format!("{:?}", std::time::SystemTime::now()));
    let submit = |code: &str| {
        run(
            bed,
            &[
                "submit-job",
                "--working-dir",
                "/home/ray/jobs/dir",
                "--env",
                "WORD=hello",
                "--",
                "python",
                "say.py",
                code,
            ],
        )
    };
    let good = submit("0");
    let log = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(
        good.status.success() && log.contains("says hello"),
        "{log}\n{}",
        String::from_utf8_lossy(&good.stderr)
    );
    assert_eq!(submit("7").status.code(), Some(3), "the job fails");
    let theirs = bed.on(
        "client",
        &[
            "sh", "-c",
            "RAY_AUTH_TOKEN=$(cat ~/.ray/auth_token) ray job submit --address http://10.77.0.1:8265 --no-wait \
             --working-dir ~/jobs/dir -- true 2>&1",
        ],
    );
    assert!(theirs.contains("already exists, skipping upload"), "{theirs}");
}
