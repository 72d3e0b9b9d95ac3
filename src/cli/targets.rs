//! The images and repositories in clusters.yaml, for the commands that build, push and clean up images.

use super::configs;
use crate::config::{self, Env, Settings, Sources};
use crate::infra::{Source, Table};
use crate::model::sort;
use crate::model::{ImageName, Registry, Timestamp};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A number of repositories in words.
pub(super) fn repositories(n: usize) -> String {
    if n == 1 { "1 repository".to_owned() } else { format!("{n} repositories") }
}

/// A directory of cluster files, and the images of its clusters.
pub(super) struct Targets {
    pub folder: PathBuf,
    pub table: Table,
    pub settings: Settings,
    /// The image of each cluster that has one in Artifact Registry, by the name of its file.
    pub images: Vec<(String, ImageName)>,
}

impl Targets {
    /// Reads the directory. If only the working directory leads to it, the user has to confirm
    /// the action, which `purpose` describes.
    pub fn read(sources: &Sources, env: &Env, purpose: &str) -> Result<Self> {
        let settings = Settings::read(sources.config.as_deref(), env)?;
        let folder = configs::table_folder(&config::infra_paths(sources, &settings, env))?;
        let table = Table::read(&folder)?;
        if config::is_unnamed(&folder, sources, &settings, env) {
            let loaded = config::read(sources, env, Timestamp::now())?;
            if loaded.review().is_some() {
                super::trust::admit(loaded, env)?;
            }
            super::trust::allow(&table.file, purpose)?;
        }
        let images = configs::images(&folder, &table)?;
        Ok(Self { folder, table, settings, images })
    }

    /// The same directory, read again: its files may have been edited during a long command.
    pub fn read_again(&self) -> Result<Self> {
        let table = Table::read(&self.folder)?;
        let images = configs::images(&self.folder, &table)?;
        Ok(Self { folder: self.folder.clone(), table, settings: self.settings.clone(), images })
    }

    /// The image `name`, or else that of `defaults` in the table.
    pub fn image<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str> {
        let is_there = |name: &str| self.images.iter().any(|(_, image)| image.name == name);
        let all = || {
            let names = self.images.iter().map(|(_, image)| image.name.as_str());
            let names: BTreeSet<&str> = sort::collected(names);
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        let table = self.table.file.display();
        match name {
            Some(name) if is_there(name) => return Ok(name),
            Some(name) => bail!("no cluster in {table} has the image `{name}`; the images are {}", all()),
            None => {}
        }
        let values = self.table.rows.iter().flat_map(|row| &row.values);
        let default = |value: &&crate::infra::Sourced| {
            value.key == "image" && matches!(value.source, Source::Defaults(_))
        };
        let names = values.filter(default).filter_map(|value| value.value.as_str());
        let names: BTreeSet<&str> = sort::collected(names.filter(|n| is_there(n)));
        match names.into_iter().collect::<Vec<_>>()[..] {
            [one] => Ok(one),
            _ => bail!("the `defaults` of {table} set no image; choose one with --image: {}", all()),
        }
    }

    /// The clusters with this image in one of these repositories, each by the name of its file.
    pub fn clusters(&self, image: &str, registries: &[Registry]) -> Vec<&str> {
        let is_selected =
            |(_, own): &&(String, ImageName)| own.name == image && registries.contains(&own.registry());
        self.images.iter().filter(is_selected).map(|(stem, _)| stem.as_str()).collect()
    }

    /// The repositories of the image, or of all images, in these regions or in all.
    pub fn registries(&self, image: Option<&str>, regions: &[String]) -> Result<Vec<Registry>> {
        let named = self.images.iter().filter(|(_, own)| image.is_none_or(|image| own.name == image));
        let all = sort::distinct(named.map(|(_, own)| own.registry()));
        let known = sort::distinct(all.iter().map(|registry| registry.location.as_str()));
        if known.is_empty() {
            bail!("no cluster in {} has an image in Artifact Registry", self.table.file.display());
        }
        if let Some(other) = regions.iter().find(|region| !known.contains(&region.as_str())) {
            let near = config::nearest(other, known.iter().copied());
            let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            bail!("no images in region `{other}`{near}; the regions are {}", known.join(", "));
        }
        let is_selected = |r: &Registry| regions.is_empty() || regions.contains(&r.location);
        Ok(all.into_iter().filter(is_selected).collect())
    }
}
