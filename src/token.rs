//! Where a cluster's token comes from, in the order of Ray's own loader (`RayAuthTokenLoader`, Ray 2.53 and 2.60),
//! with two places added, so that clusters with different tokens live side by side: the cluster's own file, which a
//! person writes, and the file of its secret, which [`Places::keep`] writes.
//!
//! Every error names the place and has a hint; no error shows a token.

mod keep;
mod layout;

use crate::model::text::printable;
use crate::model::{ClusterName, Fix, Hint, Problem, ProblemKind, Secret, SecretName, Timestamp};
use crate::regular;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of a token file in bytes; Ray reads its first line only.
const LONGEST: u64 = 64 << 10;

/// The places where a token is searched, in this order.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `RAY_AUTH_TOKEN`; an empty value counts as unset.
    pub variable: Option<Secret>,
    /// `RAY_AUTH_TOKEN_PATH`; a file that cannot be used there is an error, nothing after it is tried.
    pub path_variable: Option<PathBuf>,
    /// Folder of the token files: `clusters/NAME`, which a person writes, and `secrets/PROJECT.SECRET`, the copies.
    pub cache: PathBuf,
    /// The home folder, for `~/.ray/auth_token`.
    pub home: Option<PathBuf>,
}

/// Where a token was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `RAY_AUTH_TOKEN`.
    Variable,
    /// A file.
    File(PathBuf),
    /// A version of a secret.
    Payload(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str("RAY_AUTH_TOKEN"),
            Self::File(path) => f.write_str(&printable(&path.display().to_string())),
            Self::Payload(name) => f.write_str(&printable(name)),
        }
    }
}

/// A token and where it came from.
#[derive(Clone, Debug)]
pub struct Found {
    /// The token.
    pub token: Secret,
    /// Where it was found.
    pub source: Source,
    /// Whether other users can read the file.
    pub exposed: bool,
    /// Whether it was read from a copy of the cluster's secret: the latest version may replace it.
    pub from_secret: bool,
}

/// Why no token could be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// No place has a token.
    #[error("no token found: RAY_AUTH_TOKEN is not set, and there is no {}", shown(.tried))]
    NotFound {
        /// Files that do not exist.
        tried: Vec<PathBuf>,
    },
    /// A file exists and cannot be read.
    #[error("cannot read token file {}: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", printable(&file.display().to_string()))]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The content of a place is not a token.
    #[error("{place} {why}")]
    Unusable {
        /// The place.
        place: Source,
        /// What is wrong with its content.
        why: &'static str,
    },
}

fn shown(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|f| printable(&f.display().to_string()).into_owned()).collect();
    names.join(" or ")
}

impl TokenError {
    /// The hint.
    pub fn hint(&self, cached: &Path) -> Hint {
        match self {
            Self::NotFound { .. } => {
                format!("save the token in {} (chmod 600), or set RAY_AUTH_TOKEN", cached.display()).into()
            }
            Self::Unreadable { file, error } => match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("write the token to {}, or correct RAY_AUTH_TOKEN_PATH", file.display()).into()
                }
                io::ErrorKind::IsADirectory => {
                    format!("remove the folder {}, or use the path of a file", file.display()).into()
                }
                _ => Fix::command("check its owner and mode", format!("ls -l {}", file.display())).into(),
            },
            Self::Unwritable { file, .. } => {
                let folder = file.parent().unwrap_or(file);
                format!("make {} writable, or remove it", folder.display()).into()
            }
            Self::Unusable { place, .. } => {
                format!("write the token again, alone on the first line of {place}").into()
            }
        }
    }

    /// Whether this is a failure to write that file.
    pub fn is_of_writing(&self, file: &Path) -> bool {
        matches!(self, Self::Unwritable { file: failed, .. } if failed == file)
    }

    /// The problem to show for that cluster.
    pub fn problem(&self, cluster: &ClusterName, places: &Places, since: Timestamp) -> Problem {
        let hint = self.hint(&places.cluster_file(cluster));
        Problem::new(ProblemKind::TokenMissing, self.to_string(), hint, since)
    }
}

/// Looks for the cluster's token. Reads files; cheap enough to be called again whenever a cluster refuses one.
/// `~/.ray/auth_token` counts as a copy of the default secret, and does not count for a cluster with another one.
pub fn find(
    places: &Places,
    cluster: &ClusterName,
    secret: Option<&SecretName>,
) -> Result<Found, TokenError> {
    if let Some(secret) = places.variable.as_ref().filter(|s| !s.expose().is_empty()) {
        let token = parse(secret.expose(), &Source::Variable)?;
        return Ok(Found { token, source: Source::Variable, exposed: false, from_secret: false });
    }
    if let Some(file) = places.path_variable.as_ref().filter(|p| !p.as_os_str().is_empty()) {
        return read(file);
    }
    let own = places.own_files(cluster).into_iter().map(|file| (file, false));
    let kept = secret.into_iter().flat_map(|s| places.copies(s)).map(|file| (file, true));
    let home = places.home_file().filter(|_| secret.is_none_or(SecretName::is_default));
    let home = home.map(|file| (file, secret.is_some()));
    let (mut tried, mut broken) = (Vec::new(), None);
    for (file, from_secret) in own.chain(kept).chain(home) {
        match read(&file).map(|found| Found { from_secret, ..found }) {
            Err(TokenError::Unreadable { error, .. }) if is_missing(&error) => tried.push(file),
            // `~/.ray/auth_token` is the copy of one project's secret: another project's head would read it.
            Ok(found)
                if let Some(secret) = secret
                    && places.home_file().as_ref() == Some(&file)
                    && places.is_of_another_project(secret, &found.token) =>
            {
                tried.push(file);
            }
            // A broken copy is skipped: the next copy or Google has the token.
            Err(e) if from_secret => {
                tracing::warn!("{e}");
                broken.get_or_insert(e);
            }
            Ok(found) if from_secret && found.exposed => {
                let closed = keep::close_to_others(&file);
                return Ok(Found { exposed: closed.is_err(), ..found });
            }
            found => return found,
        }
    }
    Err(broken.unwrap_or(TokenError::NotFound { tried }))
}

/// Whether the file does not exist. A file in place of its folder is a cluster's token in the older layout.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read(file: &Path) -> Result<Found, TokenError> {
    let unreadable = |error| TokenError::Unreadable { file: file.into(), error };
    let bytes = regular::read(file, LONGEST).map_err(unreadable)?;
    let source = Source::File(file.into());
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| TokenError::Unusable { place: source.clone(), why: "is not a text file" })?;
    let token = parse(text, &source)?;
    Ok(Found { token, exposed: others_can_read(file), source, from_secret: false })
}

/// The token in a secret's payload; `place` names its version.
pub fn parse_payload(text: &str, place: &str) -> Result<Secret, TokenError> {
    parse(text, &Source::Payload(place.into()))
}

/// Reads the first line only and trims spaces, `\r` and `\n` around it, as Ray does. Characters that are not allowed in
/// an HTTP header (RFC 9110, section 5.5) are an error here, before a library refuses them without explanation.
fn parse(text: &str, place: &Source) -> Result<Secret, TokenError> {
    let unusable = |why| TokenError::Unusable { place: place.clone(), why };
    if text.starts_with('\u{feff}') {
        return Err(unusable("starts with a byte order mark, which Ray would read as part of the token"));
    }
    let token =
        text.trim_matches([' ', '\r', '\n']).lines().next().unwrap_or_default().trim_matches([' ', '\r']);
    if token.is_empty() {
        return Err(unusable("is empty"));
    }
    if !token.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Err(unusable("contains characters that are not allowed in a token"));
    }
    Ok(Secret::new(token))
}

#[cfg(unix)]
fn others_can_read(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|m| m.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_can_read(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn places(dir: &TempDir) -> Places {
        let cache = dir.path().join("cache");
        fs::create_dir_all(cache.join("clusters")).unwrap();
        fs::create_dir_all(dir.path().join(".ray")).unwrap();
        Places { cache, home: Some(dir.path().into()), ..Places::default() }
    }

    fn find_for(places: &Places) -> Result<Found, TokenError> {
        find(places, &ClusterName::new("c1"), None)
    }

    #[test]
    fn places_are_tried_in_rays_order() {
        let dir = TempDir::new().unwrap();
        let mut places = places(&dir);
        assert!(matches!(find_for(&places), Err(TokenError::NotFound { tried }) if tried.len() == 2));
        fs::write(dir.path().join(".ray/auth_token"), "home\n").unwrap();
        assert_eq!(find_for(&places).unwrap().token.expose(), "home");
        fs::write(places.cache.join("clusters/c1"), "cached\r\nrest").unwrap();
        assert_eq!(find_for(&places).unwrap().token.expose(), "cached");
        let by_path = dir.path().join("by-path");
        fs::write(&by_path, "  by path  \n").unwrap();
        places.path_variable = Some(by_path);
        assert_eq!(find_for(&places).unwrap().token.expose(), "by path");
        places.variable = Some(Secret::new("variable\n"));
        let found = find_for(&places).unwrap();
        assert_eq!((found.token.expose(), found.source), ("variable", Source::Variable));
        places.variable = Some(Secret::new(""));
        assert_eq!(find_for(&places).unwrap().token.expose(), "by path");
    }

    #[test]
    fn a_path_that_cannot_be_used_is_an_error_and_nothing_after_it_is_tried() {
        let dir = TempDir::new().unwrap();
        let mut places = places(&dir);
        fs::write(dir.path().join(".ray/auth_token"), "home\n").unwrap();
        places.path_variable = Some(dir.path().join("missing"));
        assert!(matches!(find_for(&places), Err(TokenError::Unreadable { .. })));
        let bad = dir.path().join("bad");
        places.path_variable = Some(bad.clone());
        for content in
            [&b""[..], b" \n", b"\n", b"\xef\xbb\xbftoken\n", b"to\x1bken\n", b"\xff\xfe", "tök".as_bytes()]
        {
            fs::write(&bad, content).unwrap();
            assert!(matches!(find_for(&places), Err(TokenError::Unusable { .. })), "{content:?}");
        }
        fs::remove_file(&bad).unwrap();
        fs::create_dir(&bad).unwrap();
        assert!(matches!(find_for(&places), Err(TokenError::Unreadable { .. })));
    }

    #[test]
    fn rays_own_file_is_no_copy_of_another_projects_secret() {
        let dir = TempDir::new().unwrap();
        let places = places(&dir);
        let secret =
            |project: &str| SecretName { project: Some(project.into()), name: SecretName::DEFAULT.into() };
        let (a, b) = (secret("project-a"), secret("project-b"));
        assert!(places.keep(&a, "1", &Secret::new("tok-a")).is_empty());
        let find = |secret: &SecretName| find(&places, &ClusterName::new("c"), Some(secret));
        assert_eq!(find(&a).unwrap().token, Secret::new("tok-a"));
        assert!(
            matches!(find(&b), Err(TokenError::NotFound { .. })),
            "its head would read project a's token"
        );
        // Whoever has one token for both has it in both copies.
        assert!(places.keep(&b, "1", &Secret::new("tok-a")).is_empty());
        assert_eq!(find(&b).unwrap().token, Secret::new("tok-a"));
    }

    #[test]
    fn a_file_that_others_can_read_is_noticed() {
        let dir = TempDir::new().unwrap();
        let places = places(&dir);
        let file = places.cache.join("clusters/c1");
        fs::write(&file, "secret").unwrap();
        for (mode, exposed) in [(0o600, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(find_for(&places).unwrap().exposed, exposed, "{mode:o}");
        }
    }

    #[test]
    fn no_error_shows_a_value_and_no_name_leads_out_of_the_cache() {
        let dir = TempDir::new().unwrap();
        let mut places = places(&dir);
        places.variable = Some(Secret::new("hun\u{7}ter2"));
        let error = find_for(&places).unwrap_err();
        let problem = error.problem(&ClusterName::new("c1"), &places, Timestamp::default());
        assert!(!format!("{error} {error:?} {problem:?} {places:?}").contains("ter2"));
        fs::write(dir.path().join("outside"), "x").unwrap();
        places.variable = None;
        assert!(find(&places, &ClusterName::new("../outside"), None).is_err());
    }
}
