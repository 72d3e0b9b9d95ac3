//! Artifact Registry: repositories with their clean-up policies, and the images of a repository, by tag.

use super::compute::time;
use super::{GcpError, Google};
use crate::model::sort;
use crate::model::{ImageName, Registry, Text, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

/// One build of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `sha256:…`.
    pub digest: Text,
    pub tags: Vec<Text>,
    /// When it was pushed.
    pub uploaded: Option<Timestamp>,
    /// Its size, compressed.
    pub bytes: Option<u64>,
}

/// The fields that are read of a `Repository` of Artifact Registry v1.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Repository {
    /// `DOCKER` for container images.
    pub format: String,
    /// By id; each is a `CleanupPolicy` as Google returns it.
    pub cleanup_policies: Map<String, Value>,
    /// Whether the policies are in dry-run mode: what they would delete is logged and kept.
    pub cleanup_policy_dry_run: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Page {
    docker_images: Vec<Shown>,
}

/// A `DockerImage` of Artifact Registry v1.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Shown {
    name: String,
    tags: Vec<String>,
    upload_time: String,
    /// An int64, which JSON encodes as a string.
    image_size_bytes: String,
}

impl Google {
    /// A repository; [`GcpError::NotFound`] when there is none of that name.
    pub async fn repository(&self, registry: &Registry) -> Result<Repository, GcpError> {
        let answer = self.inner.get(&self.repository_url(registry), &[]).await?;
        serde_json::from_value(answer).map_err(|e| GcpError::not_json(200, &e.to_string()))
    }

    pub(super) fn repository_url(&self, Registry { project, location, repository }: &Registry) -> String {
        let base = &self.inner.endpoints.artifact_registry;
        format!("{base}/v1/projects/{project}/locations/{location}/repositories/{repository}")
    }

    /// Every build of the image in its repository, newest first.
    pub async fn images(&self, image: &ImageName) -> Result<Vec<Image>, GcpError> {
        let url = format!("{}/dockerImages", self.repository_url(&image.registry()));
        // 1000 is the maximum page size; the default is 100 (API reference, `dockerImages.list`).
        let pages: Vec<Page> = self.inner.pages(&url, &[("pageSize", "1000")]).await?;
        let mut images: Vec<Image> = pages
            .into_iter()
            .flat_map(|page| page.docker_images)
            .filter_map(|shown| {
                // `…/dockerImages/NAME@sha256:…`; a slash in the name is written as %2F.
                let (name, digest) = shown.name.rsplit_once("/dockerImages/")?.1.rsplit_once('@')?;
                (name.replace("%2F", "/") == image.name).then(|| Image {
                    digest: digest.into(),
                    tags: shown.tags.iter().map(|t| t.as_str().into()).collect(),
                    uploaded: time(&shown.upload_time),
                    bytes: shown.image_size_bytes.parse().ok(),
                })
            })
            .collect();
        sort::by_key(&mut images, |i| std::cmp::Reverse(i.uploaded));
        Ok(images)
    }
}
