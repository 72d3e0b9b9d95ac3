//! The release script and the recipes that it fills in. Cargo and rustc are stubs: "building" writes a script that
//! calls the program under test, so that everything but the compilation is tested.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
const URL: &str = "https://downloads.example/marin-tui";

/// A machine whose Rust toolchain has the standard library of some targets.
struct Machine(TempDir);

impl Machine {
    fn with(installed: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in installed {
            fs::create_dir_all(dir.path().join("lib").join(name)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_marin-tui");
        let lib = dir.path().join("lib");
        let rustc = format!(
            "#!/bin/sh\ncase \"$1\" in\n-vV) echo 'host: {}' ;;\n--print) echo {}/\"$4\" ;;\n*) exit 1 ;;\nesac\n",
            TARGETS[0],
            lib.display()
        );
        let cargo = format!(
            "#!/bin/sh\n[ \"$1 $2 $3 $4\" = 'rustc --locked --profile dist' ] || exit 1\nfolder=$CARGO_TARGET_DIR/${{8:-.}}/dist\n\
             mkdir -p \"$folder\"\nprintf '#!/bin/sh\\nexec {program} \"$@\"\\n' > \"$folder/marin-tui\"\nchmod +x \"$folder/marin-tui\"\n"
        );
        for (name, text) in [("rustc", rustc), ("cargo", cargo)] {
            let path = bin.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(dir)
    }

    fn release(&self, words: &[&str]) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Command::new(root.join("assets/packaging/release"))
            .args(words)
            .env("PATH", format!("{}:/usr/bin:/bin", self.0.path().join("bin").display()))
            .env("CARGO_TARGET_DIR", self.0.path().join("target"))
            .env("SOURCE_DATE_EPOCH", "1")
            .env("HOME", self.0.path())
            .output()
            .unwrap()
    }

    fn dist(&self) -> PathBuf {
        self.0.path().join("target/archives")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dist().join(name)).unwrap()
    }
}

fn good(out: &Output) {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_release_holds_archives_checksums_and_filled_recipes() {
    let machine = Machine::with(&TARGETS);
    good(&machine.release(&["--url", URL]));
    let version = env!("CARGO_PKG_VERSION");
    let archive = |target: &str| format!("marin-tui-{version}-{target}.tar.gz");
    assert_eq!(
        names(&machine.dist()),
        ["PKGBUILD", "SHA256SUMS", "default.nix", &archive(TARGETS[1]), &archive(TARGETS[0]), "marin-tui.rb"]
    );
    let check = Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(machine.dist()).output();
    good(&check.unwrap());
    let sums: BTreeMap<String, String> = machine
        .read("SHA256SUMS")
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    for recipe in ["PKGBUILD", "default.nix", "marin-tui.rb"] {
        let text = machine.read(recipe);
        assert!(
            !text.contains("@URL@") && !text.contains("@VERSION@") && !text.contains("@SHA256"),
            "{text}"
        );
        for target in TARGETS {
            assert!(text.contains(&sums[&archive(target)]), "{recipe}: {target}: {text}");
        }
        assert!(text.contains(URL) && text.contains(version), "{recipe}: {text}");
    }
    // The recipe for the AUR is a shell script; makepkg reads it like this.
    let read = "source ./PKGBUILD; echo \"$pkgver ${source_x86_64[0]} ${sha256sums_aarch64[0]}\"";
    let out = Command::new("bash").args(["-euc", read]).current_dir(machine.dist()).output().unwrap();
    good(&out);
    let expected = format!("{version} {URL}/{} {}\n", archive(TARGETS[0]), sums[&archive(TARGETS[1])]);
    assert_eq!(String::from_utf8(out.stdout).unwrap(), expected);

    let list =
        Command::new("tar").arg("-tzf").arg(machine.dist().join(archive(TARGETS[0]))).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let folder = format!("marin-tui-{version}-{}", TARGETS[0]);
    for file in
        ["marin-tui", "LICENSE", "man/marin-tui.1", "man/marin-tui-keys.7", "completions/marin-tui.zsh"]
    {
        assert!(list.lines().any(|line| line == format!("{folder}/{file}")), "{file}: {list}");
    }
    // The files that the recipe installs are in the archive, under the names that it uses.
    for line in machine.read("PKGBUILD").lines().filter(|line| line.trim_start().starts_with("install ")) {
        let file = line.split_whitespace().find(|word| word.contains('.') && !word.contains("pkgdir"));
        let Some(file) = file.map(|file| file.trim_start_matches("man/*")) else { continue };
        assert!(list.lines().any(|entry| entry.ends_with(file)), "{file}: {list}");
    }
    // A second run gives the same archives.
    let before = machine.read("SHA256SUMS");
    good(&machine.release(&["--url", URL]));
    assert_eq!(machine.read("SHA256SUMS"), before);
}

#[test]
fn a_recipe_for_a_target_that_was_not_built_is_left_out() {
    let machine = Machine::with(&TARGETS[..1]);
    let out = machine.release(&[]);
    good(&out);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("skipped aarch64-unknown-linux-musl"), "{said}");
    assert!(said.contains("rustup target add aarch64-unknown-linux-musl"), "{said}");
    assert!(said.contains("skipped PKGBUILD"), "{said}");
    let names = names(&machine.dist());
    assert!(names.iter().any(|name| name.ends_with(".tar.gz")) && !names.contains(&"PKGBUILD".to_owned()));
    // A target that is named explicitly must be available.
    let out = machine.release(&[TARGETS[1]]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("rustup target add"), "{out:?}");
}

/// A file system with only a program and the libraries that the dynamic linker finds for it.
#[cfg(target_os = "linux")]
fn bare_system(program: &Path) -> TempDir {
    /// Libraries of the packages libc6 and libgcc-s1, which every Debian has: dpkg and apt need them.
    const ALWAYS_THERE: [&str; 5] = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux", "linux-vdso"];
    let root = tempfile::tempdir().unwrap();
    let out = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(out.stdout).unwrap();
    let files = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for (file, name) in files.chain([program]).map(|file| (file, file.file_name().unwrap())) {
        let there = root.path().join(file.strip_prefix("/").unwrap());
        let is_library = file != program;
        let there = if is_library { there } else { root.path().join(name) };
        fs::create_dir_all(there.parent().unwrap()).unwrap();
        fs::copy(file, there).unwrap();
    }
    let others: Vec<&str> =
        libraries.lines().filter(|line| !ALWAYS_THERE.iter().any(|known| line.contains(known))).collect();
    assert!(others.is_empty() && libraries.contains("libc.so"), "{libraries}");
    root
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_starts_on_a_bare_system() {
    let root = bare_system(Path::new(env!("CARGO_BIN_EXE_marin-tui")));
    let infra = root.path().join("infra");
    fs::create_dir(&infra).unwrap();
    let file = "cluster_name: lab\nprovider: {type: local, head_ip: 10.0.0.1}\nauth: {ssh_user: ray}\n";
    fs::write(infra.join("lab.yaml"), file).unwrap();
    for folder in ["home", "man", "tmp"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    let run = |words: &[&str]| {
        // Root in the user namespace is the user who runs the test.
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "chroot"]).arg(root.path()).arg("/marin-tui").args(words);
        let out = command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/home")
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let good = |words: &[&str]| {
        let (code, out, err) = run(words);
        assert_eq!(code, Some(0), "{words:?}: {out}{err}");
        out
    };
    assert!(good(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    assert!(good(&["--infra", "/infra", "clusters", "--json"]).contains("\"lab\""));
    assert!(good(&["completions", "bash"]).contains("marin-tui"));
    good(&["man", "/man"]);
    assert!(root.path().join("man/marin-tui.1").is_file());
    // It names the programs that it requires.
    let (code, rows, err) = run(&["--infra", "/infra", "setup", "--check", "--json"]);
    assert_eq!(code, Some(1), "{rows}{err}");
    assert!(rows.contains("ssh") && rows.contains("apt"), "{rows}");
}
