//! Finds a cluster's token, in the order of Ray's own loader (`RayAuthTokenLoader`, Ray 2.53 and 2.60). Two sources are
//! added, so that clusters can have different tokens: the cluster's own file, which the user writes, and the copy of
//! its secret, which [`TokenSources::keep`] writes.
//!
//! Every error names the source and has a hint; no error shows a token.

mod error;
mod file;
mod keep;
mod layout;
mod sources;

pub use error::TokenError;
pub use file::{Found, parse_payload};
pub use sources::{Source, TokenSources};

use crate::model::{ClusterName, SecretName};
use file::{parse, read};
use std::io;

/// Finds the cluster's token. It reads only a few files, so it can be called again whenever a cluster refuses a token.
/// `~/.ray/auth_token` counts as a copy of the default secret, and does not count for a cluster with another one.
pub fn find(
    sources: &TokenSources,
    cluster: &ClusterName,
    secret: Option<&SecretName>,
) -> Result<Found, TokenError> {
    if let Some(secret) = sources.variable.as_ref().filter(|s| !s.expose().is_empty()) {
        let token = parse(secret.expose(), &Source::Variable)?;
        return Ok(Found { token, source: Source::Variable, exposed: false, from_secret: false });
    }
    if let Some(file) = sources.path_variable.as_ref().filter(|p| !p.as_os_str().is_empty()) {
        return read(file);
    }
    let own = sources.own_files(cluster).into_iter().map(|file| (file, false));
    let kept = secret.into_iter().flat_map(|s| sources.copies(s)).map(|file| (file, true));
    let home = sources.home_file().filter(|_| secret.is_none_or(SecretName::is_default));
    let home = home.map(|file| (file, secret.is_some()));
    let (mut tried, mut broken) = (Vec::new(), None);
    for (file, from_secret) in own.chain(kept).chain(home) {
        match read(&file).map(|found| Found { from_secret, ..found }) {
            Err(TokenError::Unreadable { error, .. }) if is_missing(&error) => tried.push(file),
            // `~/.ray/auth_token` is a copy of another project's secret, which this cluster's head must not receive.
            Ok(found)
                if let Some(secret) = secret
                    && sources.home_file().as_ref() == Some(&file)
                    && sources.is_of_another_project(secret, &found.token) =>
            {
                tried.push(file);
            }
            // A broken copy is skipped: the next copy, or Google, may have the token.
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

/// Whether the file does not exist. In the older layout, a cluster's token file may be in place of the directory.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Secret, Timestamp};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn sources(dir: &TempDir) -> TokenSources {
        let cache = dir.path().join("cache");
        fs::create_dir_all(cache.join("clusters")).unwrap();
        fs::create_dir_all(dir.path().join(".ray")).unwrap();
        TokenSources { cache, home: Some(dir.path().into()), ..TokenSources::default() }
    }

    fn find_for(sources: &TokenSources) -> Result<Found, TokenError> {
        find(sources, &ClusterName::new("c1"), None)
    }

    #[test]
    fn places_are_tried_in_rays_order() {
        let dir = TempDir::new().unwrap();
        let mut sources = sources(&dir);
        assert!(matches!(find_for(&sources), Err(TokenError::NotFound { tried }) if tried.len() == 2));
        fs::write(dir.path().join(".ray/auth_token"), "home\n").unwrap();
        assert_eq!(find_for(&sources).unwrap().token.expose(), "home");
        fs::write(sources.cache.join("clusters/c1"), "cached\r\nrest").unwrap();
        assert_eq!(find_for(&sources).unwrap().token.expose(), "cached");
        let by_path = dir.path().join("by-path");
        fs::write(&by_path, "  by path  \n").unwrap();
        sources.path_variable = Some(by_path);
        assert_eq!(find_for(&sources).unwrap().token.expose(), "by path");
        sources.variable = Some(Secret::new("variable\n"));
        let found = find_for(&sources).unwrap();
        assert_eq!((found.token.expose(), found.source), ("variable", Source::Variable));
        sources.variable = Some(Secret::new(""));
        assert_eq!(find_for(&sources).unwrap().token.expose(), "by path");
    }

    #[test]
    fn an_unusable_path_is_an_error_and_later_places_are_not_tried() {
        let dir = TempDir::new().unwrap();
        let mut sources = sources(&dir);
        fs::write(dir.path().join(".ray/auth_token"), "home\n").unwrap();
        sources.path_variable = Some(dir.path().join("missing"));
        assert!(matches!(find_for(&sources), Err(TokenError::Unreadable { .. })));
        let bad = dir.path().join("bad");
        sources.path_variable = Some(bad.clone());
        for content in
            [&b""[..], b" \n", b"\n", b"\xef\xbb\xbftoken\n", b"to\x1bken\n", b"\xff\xfe", "tök".as_bytes()]
        {
            fs::write(&bad, content).unwrap();
            assert!(matches!(find_for(&sources), Err(TokenError::Unusable { .. })), "{content:?}");
        }
        fs::remove_file(&bad).unwrap();
        fs::create_dir(&bad).unwrap();
        assert!(matches!(find_for(&sources), Err(TokenError::Unreadable { .. })));
    }

    #[test]
    fn rays_own_file_is_not_used_for_another_projects_secret() {
        let dir = TempDir::new().unwrap();
        let sources = sources(&dir);
        let secret =
            |project: &str| SecretName { project: Some(project.into()), name: SecretName::DEFAULT.into() };
        let (a, b) = (secret("project-a"), secret("project-b"));
        assert!(sources.keep(&a, "1", &Secret::new("tok-a")).is_empty());
        let find = |secret: &SecretName| find(&sources, &ClusterName::new("c"), Some(secret));
        assert_eq!(find(&a).unwrap().token, Secret::new("tok-a"));
        assert!(
            matches!(find(&b), Err(TokenError::NotFound { .. })),
            "its head would read project a's token"
        );
        // With the same token for both projects, both copies have it.
        assert!(sources.keep(&b, "1", &Secret::new("tok-a")).is_empty());
        assert_eq!(find(&b).unwrap().token, Secret::new("tok-a"));
    }

    #[test]
    fn a_file_that_others_can_read_is_reported_as_exposed() {
        let dir = TempDir::new().unwrap();
        let sources = sources(&dir);
        let file = sources.cache.join("clusters/c1");
        fs::write(&file, "secret").unwrap();
        for (mode, exposed) in [(0o600, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(find_for(&sources).unwrap().exposed, exposed, "{mode:o}");
        }
    }

    #[test]
    fn no_error_shows_a_value_and_no_name_leaves_the_cache() {
        let dir = TempDir::new().unwrap();
        let mut sources = sources(&dir);
        sources.variable = Some(Secret::new("hun\u{7}ter2"));
        let error = find_for(&sources).unwrap_err();
        let problem = error.problem(&ClusterName::new("c1"), &sources, Timestamp::default());
        assert!(!format!("{error} {error:?} {problem:?} {sources:?}").contains("ter2"));
        fs::write(dir.path().join("outside"), "x").unwrap();
        sources.variable = None;
        assert!(find(&sources, &ClusterName::new("../outside"), None).is_err());
    }
}
