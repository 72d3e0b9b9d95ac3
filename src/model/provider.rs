//! The infrastructure provider of a cluster.

use std::fmt;

/// `provider.type` of a cluster file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// Unknown: the cluster has no file (`--address`).
    #[default]
    None,
    /// Google Cloud.
    Gcp,
    /// Machines whose addresses are in the file.
    Local,
    /// Another provider that Ray supports, by name. Such a cluster can be monitored, but not restarted or extended.
    Other(&'static str),
}

impl Provider {
    /// The providers of Ray's schema (`ray-schema.json`).
    pub const NAMES: [&str; 11] = [
        "local",
        "gcp",
        "aws",
        "azure",
        "aliyun",
        "vsphere",
        "kuberay",
        "fake_multinode",
        "readonly",
        "external",
        "spark",
    ];

    /// The provider with this name; none if Ray has no such provider.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match Self::NAMES.into_iter().find(|known| *known == name)? {
            "gcp" => Self::Gcp,
            "local" => Self::Local,
            other => Self::Other(other),
        })
    }

    /// Its name in the file; empty if unknown.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gcp => "gcp",
            Self::Local => "local",
            Self::Other(name) => name,
        }
    }
}

/// Prints its name, or `none`.
impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::None { "none" } else { self.name() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed() {
        for name in Provider::NAMES {
            assert_eq!(Provider::parse(name).map(Provider::name), Some(name));
        }
        assert_eq!((Provider::parse(""), Provider::parse("GCP")), (None, None));
        assert_eq!(Provider::default().to_string(), "none");
    }
}
