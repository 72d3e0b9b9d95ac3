//! Artifact Registry: the images of a repository, by tag.

use super::compute::time;
use super::{GcpError, Google};
use crate::model::{ImageName, Text, Timestamp};
use serde::Deserialize;

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
    /// Every build of the image in its repository, newest first.
    pub async fn images(&self, image: &ImageName) -> Result<Vec<Image>, GcpError> {
        let ImageName { location, project, repository, .. } = image;
        let base = &self.inner.endpoints.artifact_registry;
        let url = format!(
            "{base}/v1/projects/{project}/locations/{location}/repositories/{repository}/dockerImages"
        );
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
        images.sort_by_key(|i| std::cmp::Reverse(i.uploaded));
        Ok(images)
    }
}
