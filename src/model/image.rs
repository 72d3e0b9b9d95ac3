//! Names of container images in Google's Artifact Registry.

use std::fmt;

/// An image name of the form `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// Region or multi-region, e.g. `us-central2`.
    pub location: String,
    /// Google Cloud project.
    pub project: String,
    /// Artifact Registry repository.
    pub repository: String,
    /// Name; may contain slashes.
    pub name: String,
    /// Tag; `latest` if the name has none. Empty for a digest.
    pub tag: String,
}

/// A repository of Google's Artifact Registry for container images.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registry {
    /// Google Cloud project.
    pub project: String,
    /// Region or multi-region.
    pub location: String,
    /// Name of the repository.
    pub repository: String,
}

impl Registry {
    /// The host that docker logs in to.
    pub fn host(&self) -> String {
        format!("{}-docker.pkg.dev", self.location)
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.host(), self.project, self.repository)
    }
}

/// Why a text is not an image tag; none if it is one. Docker's reference grammar: at most 128 letters, digits and
/// `. _ -`; the first character is not `.` or `-`.
pub fn tag_fault(text: &str) -> Option<String> {
    if text.contains('@') || text.starts_with("sha256:") {
        let why = "is a digest, not a tag; specify a tag, e.g. 20261120";
        return Some(format!("`{text}` {why}"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_tag =
        (1..=128).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with(['.', '-']);
    (!is_tag).then(|| format!("`{text}` is not an image tag; use at most 128 letters, digits and . _ -"))
}

impl ImageName {
    /// The repository that contains the image.
    pub fn registry(&self) -> Registry {
        let Self { location, project, repository, .. } = self.clone();
        Registry { project, location, repository }
    }

    /// Parses an image name; `None` if it is not in Artifact Registry.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |s: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
            !s.is_empty() && !s.starts_with('.') && s.chars().all(allowed)
        };
        let mut parts = text.trim().splitn(4, '/');
        let location = parts.next()?.strip_suffix("-docker.pkg.dev")?;
        let (project, repository, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let (name, tag) = match (rest.split_once('@'), rest.rsplit_once(':')) {
            (Some((name, _)), _) => (name.split(':').next().unwrap_or(name), ""),
            (None, Some((name, tag))) => (name, tag),
            (None, None) => (rest, "latest"),
        };
        let is_valid = [location, project, repository].into_iter().all(plain) && name.split('/').all(plain);
        is_valid.then(|| Self {
            location: location.into(),
            project: project.into(),
            repository: repository.into(),
            name: name.into(),
            tag: tag.into(),
        })
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry(), self.name)?;
        if self.tag.is_empty() { Ok(()) } else { write!(f, ":{}", self.tag) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let parts = |text: &str| {
            ImageName::parse(text)
                .map(|i| [i.location, i.project, i.repository, i.name, i.tag].join(" "))
                .unwrap_or_default()
        };
        let cases = [
            (
                "us-central2-docker.pkg.dev/hai/marin/cluster:20261120",
                "us-central2 hai marin cluster 20261120",
            ),
            ("us-docker.pkg.dev/hai/marin/cluster", "us hai marin cluster latest"),
            ("us-docker.pkg.dev/hai/marin/team/cluster:a", "us hai marin team/cluster a"),
            ("us-docker.pkg.dev/hai/marin/cluster@sha256:0a", "us hai marin cluster "),
            ("us-docker.pkg.dev/hai/marin/cluster:a@sha256:0a", "us hai marin cluster "),
            ("rayproject/ray:2.53.0", ""),
            ("us-docker.pkg.dev/hai/marin", ""),
            ("us-docker.pkg.dev/hai/../marin/cluster:a", ""),
            ("us-docker.pkg.dev/hai/marin/a?b:c", ""),
            ("", ""),
        ];
        for (text, wanted) in cases {
            assert_eq!(parts(text), wanted, "{text}");
        }
        let image = ImageName::parse("us-docker.pkg.dev/hai/marin/team/cluster:a").unwrap();
        assert_eq!(image.to_string(), "us-docker.pkg.dev/hai/marin/team/cluster:a");
        assert_eq!(image.registry().to_string(), "us-docker.pkg.dev/hai/marin");
    }

    #[test]
    fn tags_are_distinguished_from_digests_and_other_text() {
        for tag in ["latest", "20261120-0a1b2c3", "_x", "1e5"] {
            assert_eq!(tag_fault(tag), None, "{tag}");
        }
        for digest in ["sha256:0a", "latest@sha256:0a", "@sha256:0a"] {
            assert!(tag_fault(digest).unwrap().contains("is a digest"), "{digest}");
        }
        for wrong in ["", ".x", "-x", "a b", "a:b", "a/b", &"x".repeat(129)] {
            assert!(tag_fault(wrong).unwrap().contains("is not an image tag"), "{wrong}");
        }
    }
}
