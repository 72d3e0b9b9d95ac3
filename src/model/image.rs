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
    /// Name; it may hold slashes.
    pub name: String,
    /// Tag; `latest` when none is said. Empty for a digest.
    pub tag: String,
}

impl ImageName {
    /// Takes a name apart; `None` when it is of no Artifact Registry.
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
        let sound = [location, project, repository].into_iter().all(plain) && name.split('/').all(plain);
        sound.then(|| Self {
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
        let Self { location, project, repository, name, tag } = self;
        write!(f, "{location}-docker.pkg.dev/{project}/{repository}/{name}")?;
        if tag.is_empty() { Ok(()) } else { write!(f, ":{tag}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
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
    }
}
