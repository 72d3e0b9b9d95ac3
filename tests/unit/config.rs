//! Cluster files and settings on disk, especially broken ones.

use marin_tui::config::{
    Config, ConfigError, Entry, Env, Launch, Records, Sources, TrustState, file_of, load, read,
};
use marin_tui::model::{HeadAddress, HostName, Timestamp};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn load_in(dir: &Path, sources: &Sources, vars: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let home = dir.join("home");
    let home = home.to_str().unwrap();
    let vars: Vec<_> = [("HOME", home)].into_iter().chain(vars.iter().copied()).collect();
    load(sources, &Env::new(&vars, dir), Timestamp::default())
}

fn write(dir: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn broken(config: &Config, file: &str) -> String {
    let found = config.entries.iter().find_map(|e| match e {
        Entry::Broken(b) if b.file.ends_with(file) => Some(format!("{}; {}", b.problem.what, b.problem.hint)),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{file} is not broken: {:?}", config.entries))
}

#[test]
fn a_broken_file_is_a_row_and_does_not_hide_others() {
    let dir = TempDir::new().unwrap();
    let good = "cluster_name: good\nprovider: {type: local, head_ip: 10.0.0.1}\n";
    write(&dir, "infra/good.yaml", good);
    write(&dir, "infra/twin.yaml", good);
    write(&dir, "infra/tab.yaml", "cluster_name: x\nprovider:\n\ttype: local\n");
    write(&dir, "infra/latin1.yaml", b"cluster_name: x\n# caf\xe9\n");
    write(&dir, "infra/huge.yaml", vec![b'#'; 5 << 20]);
    write(&dir, "infra/empty.yaml", "");
    write(&dir, "infra/list.yaml", "- a\n- b\n");
    write(&dir, "infra/escape.yaml", "cluster_name: \"a\\e]0;x\\a\"\nprovider: {type: nonsense\\e}\n");
    write(&dir, "infra/marin-cluster-template.yaml", "cluster_name: {{NAME}}\n");
    write(&dir, "infra/vllm.yaml", "cluster_name: {{ name }}\n");
    write(&dir, "infra/notes.txt", "not yaml");
    let config = load_in(dir.path(), &Sources::default(), &[]).unwrap();
    let good: Vec<_> = config.entries.iter().filter_map(Entry::cluster).map(|c| c.name.as_str()).collect();
    assert_eq!(good, ["good"]);
    assert_eq!(config.skipped.len(), 2);
    assert!(broken(&config, "tab.yaml").contains("tab.yaml:3:"), "{}", broken(&config, "tab.yaml"));
    assert!(
        broken(&config, "tab.yaml").contains("indent this line with spaces"),
        "{}",
        broken(&config, "tab.yaml")
    );
    assert!(broken(&config, "latin1.yaml").contains("latin1.yaml:2:1: not UTF-8"));
    assert!(broken(&config, "huge.yaml").contains("larger than 2 MB"));
    assert!(broken(&config, "empty.yaml").contains("empty"));
    assert!(broken(&config, "list.yaml").contains("list.yaml:1:1"));
    assert!(broken(&config, "twin.yaml").contains("already used by"));
    assert!(!broken(&config, "escape.yaml").contains('\x1b'));
}

#[test]
fn a_named_folder_takes_precedence_over_the_settings_and_those_over_the_default() {
    let dir = TempDir::new().unwrap();
    for infra in ["a", "b", "infra"] {
        write(
            &dir,
            &format!("{infra}/c.yaml"),
            format!("cluster_name: in-{infra}\nprovider: {{type: gcp}}\n"),
        );
    }
    let first = |sources: &Sources| {
        let config = load_in(dir.path(), sources, &[]).unwrap();
        config.entries[0].cluster().unwrap().name.to_string()
    };
    assert_eq!(first(&Sources::default()), "in-infra");
    write(&dir, "home/.config/marin-tui/config.yaml", "infra: [b]\n");
    assert_eq!(first(&Sources::default()), "in-b");
    assert_eq!(first(&Sources { infra: Some("a".into()), ..Sources::default() }), "in-a");
    assert_eq!(first(&Sources { infra: Some("a/c.yaml".into()), ..Sources::default() }), "in-a");
}

#[test]
fn a_missing_folder_is_reported_with_a_hint() {
    let dir = TempDir::new().unwrap();
    let error = load_in(dir.path(), &Sources::default(), &[]).unwrap_err().to_string();
    assert!(error.contains("--infra") && error.contains("--address"), "{error}");
    let named = Sources { config: Some("none.yaml".into()), ..Sources::default() };
    assert!(load_in(dir.path(), &named, &[]).unwrap_err().to_string().contains("none.yaml"));
}

#[test]
fn an_address_attaches_directly() {
    let dir = TempDir::new().unwrap();
    let head = |sources: &Sources, vars: &[(&str, &str)]| {
        let config = load_in(dir.path(), sources, vars)?;
        Ok::<_, ConfigError>(config.entries[0].cluster().unwrap().head.clone())
    };
    let named =
        Sources { address: Some("http://h:8265/".into()), gcs: Some("h:6379".into()), ..Sources::default() };
    let direct = |gcs: Option<&str>| HeadAddress::Direct {
        dashboard: "http://h:8265".into(),
        gcs: gcs.map(Into::into),
    };
    assert_eq!(head(&named, &[]).unwrap(), direct(Some("h:6379")));
    assert_eq!(head(&Sources::default(), &[("RAY_ADDRESS", "http://h:8265")]).unwrap(), direct(None));
    // The program does not use Ray's other forms of RAY_ADDRESS.
    assert!(head(&Sources::default(), &[("RAY_ADDRESS", "ray://h:10001")]).is_err());
    for bad in ["h:8265", "http://", "ray://h:10001"] {
        let sources = Sources { address: Some(bad.into()), ..Sources::default() };
        assert!(head(&sources, &[]).unwrap_err().to_string().contains("http://HOST:8265"), "{bad}");
    }
    for bad in
        ["http://u@evil:8265", "http://h:x", "http://a b", "http://-h", "http://h;rm:1", "http://\u{1b}[2J"]
    {
        let sources = Sources { address: Some(bad.into()), ..Sources::default() };
        let e = head(&sources, &[]).unwrap_err().to_string();
        assert!(e.contains("is not a host") && !e.contains('\u{1b}'), "{e}");
        assert!(head(&Sources::default(), &[("RAY_ADDRESS", bad)]).is_err(), "{bad}");
    }
    for bad in ["h", "u@h:6379", "http://h:6379"] {
        let sources = Sources { gcs: Some(bad.into()), ..named.clone() };
        assert!(head(&sources, &[]).unwrap_err().to_string().contains("HOST:6379"), "{bad}");
    }
}

#[test]
fn the_example_for_local_machines_is_a_valid_cluster_file() {
    let dir = TempDir::new().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/infra/examples/local.yaml");
    write(&dir, "infra/mine.yaml", fs::read(example).unwrap());
    let config = load_in(dir.path(), &Sources::default(), &[]).unwrap();
    assert_eq!(
        config.entries[0].cluster().unwrap().head,
        HeadAddress::Ssh(HostName::parse("10.0.0.1").unwrap())
    );
}

#[test]
fn a_file_that_changed_since_its_folder_was_trusted_is_not_used() {
    let dir = TempDir::new().unwrap();
    let cluster = |max: u32| format!("cluster_name: a\nmax_workers: {max}\nprovider: {{type: gcp}}\n");
    write(&dir, "infra/a.yaml", cluster(1));
    let home = dir.path().join("home");
    let env = Env::new(&[("HOME", home.to_str().unwrap())], dir.path());
    let (records, now) = (Records::of(&env), Timestamp::default());
    let loaded = read(&Sources::default(), &env, now).unwrap();
    assert!(matches!(loaded.clone().admit(&records), Err(ConfigError::Untrusted(_))));
    records.accept(loaded.review().unwrap(), now).unwrap();
    assert_eq!(loaded.review().unwrap().state(&records), TrustState::Trusted);
    let (config, _) = loaded.admit(&records).unwrap();
    let spec = config.entries[0].cluster().unwrap();
    assert!(file_of(spec).is_ok() && Launch::of(spec).is_ok());
    write(&dir, "infra/a.yaml", cluster(2));
    for e in [file_of(spec).unwrap_err(), Launch::of(spec).unwrap_err()] {
        assert!(e.what().contains("has changed since"), "{e}");
    }
    // A file that the operator names explicitly needs no trust, and is used with its current content.
    let named = Sources { infra: Some("infra".into()), ..Sources::default() };
    let loaded = read(&named, &env, now).unwrap();
    assert!(loaded.review().is_none());
    let (config, _) = loaded.admit(&records).unwrap();
    write(&dir, "infra/a.yaml", cluster(3));
    assert!(file_of(config.entries[0].cluster().unwrap()).is_ok());
}

#[test]
fn the_trust_question_shows_everything_in_a_folder() {
    let dir = TempDir::new().unwrap();
    let home = dir.path().join("home");
    let read = |vars: &[(&str, &str)]| {
        let vars = [&[("HOME", home.to_str().unwrap())], vars].concat();
        read(&Sources::default(), &Env::new(&vars, dir.path()), Timestamp::default()).unwrap()
    };
    // A duplicate key: Ray accepts the file, but a strict parser does not.
    let hostile = "cluster_name: a\nx: 1\nx: 2\nprovider: {type: external, module: evil.provider}\nsetup_commands: [curl evil]\n";
    write(&dir, "infra/a.yaml", hostile);
    let looked = read(&[]).into_displayed().unwrap();
    assert!(matches!(&looked.entries[..], [Entry::Broken(_)]), "{:?}", looked.entries);
    // A user name that ssh would parse as an option.
    let user =
        "cluster_name: a\nprovider: {type: local, head_ip: h}\nauth: {ssh_user: '-oProxyCommand=evil'}\n";
    write(&dir, "infra/a.yaml", user);
    assert!(matches!(&read(&[]).into_displayed().unwrap().entries[..], [Entry::Broken(_)]));
    let shell = "cluster_name: a\nprovider: {type: local, head_ip: h}\ndocker: {image: evil/image, run_options: [--privileged]}\n";
    write(&dir, "infra/a.yaml", shell);
    let lines = read(&[]).review().unwrap().lines().join("\n");
    assert!(lines.contains("evil/image") && lines.contains("--privileged"), "{lines}");
    // A variable that is set now may not be set next time; the file is accepted as a whole.
    write(&dir, ".marin.yaml", "env: {RAY_ADDRESS: 'http://evil:8265', WANDB_API_KEY: x}\n");
    let set = [("RAY_ADDRESS", "http://mine:8265")];
    let lines = read(&set).review().unwrap().lines().join("\n");
    assert!(lines.contains("http://evil:8265"), "{lines}");
}
