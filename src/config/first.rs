//! Writes files that do not exist yet: the first settings file, and a private key.

use super::paths::create_private;
use super::settings::{DEFAULTS, Settings};
use super::yaml::{self, FileError};
use crate::model::Secret;
use crate::replace;
use std::fs;
use std::io;
use std::path::Path;

/// The text of a settings file with all defaults, the directory of cluster files, and the secret with the clusters'
/// key.
pub fn first_settings(infra: Option<&Path>, key_secret: Option<&str>) -> Result<String, FileError> {
    // A JSON string is also a YAML string.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = DEFAULTS.to_owned();
    if let Some(infra) = infra {
        text = text.replace("\ninfra: []\n", &format!("\ninfra: [{}]\n", quoted(&infra.to_string_lossy())));
    }
    if let Some(secret) = key_secret {
        text = text.replace("\nssh_key_secret: null\n", &format!("\nssh_key_secret: {}\n", quoted(secret)));
    }
    yaml::parse::<Settings>(&text, Path::new("config.yaml"))?;
    Ok(text)
}

/// Writes a new file that only its owner can read, and fails if it exists. A missing directory is private as well.
pub fn write_first(file: &Path, content: &Secret) -> io::Result<()> {
    if file.symlink_metadata().is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it already exists"));
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.exists()) {
        if let Some(above) = folder.parent() {
            fs::create_dir_all(above)?;
        }
        create_private(folder)?;
    }
    replace::write(file, content.expose().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_settings_file_has_the_defaults_and_the_given_values() {
        let infra = Path::new("/src/a \"b\"/infra");
        let text = first_settings(Some(infra), Some("KEY")).unwrap();
        let settings: Settings = yaml::parse(&text, Path::new("c")).unwrap();
        assert_eq!(
            (&settings.infra[..], settings.ssh_key_secret.as_deref()),
            (&[infra.to_owned()][..], Some("KEY"))
        );
        let same = Settings { infra: Vec::new(), ssh_key_secret: None, ..settings };
        assert_eq!(format!("{same:?}"), format!("{:?}", Settings::default()));
        assert_eq!(first_settings(None, None).unwrap(), DEFAULTS);
    }

    #[test]
    fn a_file_is_written_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".ssh/key.pem");
        write_first(&file, &Secret::new("one")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        let again = write_first(&file, &Secret::new("two")).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        // The mode of an existing directory is not changed.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        write_first(&dir.path().join("beside"), &Secret::new("x")).unwrap();
        assert_eq!(mode(dir.path()), 0o755);
        std::os::unix::fs::symlink("/nowhere", dir.path().join("link")).unwrap();
        assert!(write_first(&dir.path().join("link"), &Secret::new("x")).is_err());
    }
}
