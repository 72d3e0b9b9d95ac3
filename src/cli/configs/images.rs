//! `configs images`: lists the builds of a cluster's image in Artifact Registry.

use crate::cli::google::google;
use crate::cli::output;
use crate::cli::reach::Reach;
use crate::config::{Settings, yaml};
use crate::infra::{self, State, Table};
use crate::model::command_line::shell_quote;
use crate::model::{ImageName, Target, Text, Timestamp};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use std::path::Path;

/// The image in a cluster's file, or in the file as it would be rendered.
pub fn image(folder: &Path, table: &Table, stem: &str) -> Result<ImageName> {
    let plan = infra::plan(folder, table);
    let planned = plan.iter().find(|p| p.stem == stem);
    if let Some(e) = planned.and_then(|p| p.error.clone()) {
        return Err(e.into());
    }
    let text = planned.map_or("", |p| p.after.as_str());
    let name = docker_image(text, &folder.join(format!("{stem}.yaml")))?;
    ImageName::parse(&name)
        .with_context(|| format!("the image of {stem} (`{name}`) is not in Artifact Registry"))
}

/// The image of each cluster that has one in Artifact Registry, by the name of its file, as it would be rendered.
pub fn all(folder: &Path, table: &Table) -> Result<Vec<(String, ImageName)>> {
    let plan = infra::plan(folder, table);
    super::update::rendered(&plan)?;
    let mut images = Vec::new();
    for planned in plan.iter().filter(|planned| planned.state != State::Orphan) {
        let name = docker_image(&planned.after, &planned.file)?;
        images.extend(ImageName::parse(&name).map(|image| (planned.stem.clone(), image)));
    }
    Ok(images)
}

/// The image that a cluster's file currently names.
pub fn of_file(file: &Path) -> Option<ImageName> {
    let text = yaml::read(file).ok()?;
    ImageName::parse(&docker_image(&text, file).ok()?)
}

fn docker_image(text: &str, file: &Path) -> Result<String> {
    let value: serde_yaml::Value = yaml::parse(text, file)?;
    Ok(value["docker"]["image"].as_str().unwrap_or_default().to_owned())
}

/// Lists the image builds with their tags, newest first.
pub fn run(image: &ImageName, stem: &str, settings: &Settings, as_json: bool) -> Result<()> {
    let google = google(settings);
    let read = async {
        let images = google.images(image).await;
        images.map_err(|e| anyhow!("cannot list the images of {stem}: {e}; {}", e.hint()))
    };
    let builds = Reach::block_on(read)?;
    let tagged = || builds.iter().filter(|b| !b.tags.is_empty());
    let used = |tag: &str| tag == image.tag;
    if as_json {
        let rows: Vec<_> = tagged()
            .map(|b| {
                let tags: Vec<&str> = b.tags.iter().map(Text::raw).collect();
                json!({"tags": tags, "digest": b.digest.raw(), "bytes": b.bytes,
                    "uploaded_ms": b.uploaded.map(Timestamp::as_millis),
                    "used": b.tags.iter().any(|t| used(t.raw()))})
            })
            .collect();
        output::json(&rows)?;
    } else {
        let now = Timestamp::now();
        let rows: Vec<Vec<String>> = tagged()
            .map(|b| {
                let tags: Vec<String> = b.tags.iter().map(ToString::to_string).collect();
                let size = b.bytes.map(|n| format!("{:.1} GiB", n as f64 / f64::from(1 << 30)));
                let age = b.uploaded.map(|t| format!("{} ago", crate::model::time::brief(t.age(now))));
                let mark = if b.tags.iter().any(|t| used(t.raw())) { "in use" } else { "" };
                let digest = b.digest.to_string().chars().take(19).collect();
                vec![tags.join(", "), age.unwrap_or_default(), size.unwrap_or_default(), digest, mark.into()]
            })
            .collect();
        let header = ["TAGS", "UPLOADED", "SIZE", "DIGEST", ""];
        super::super::columns::print(&mut output::stdout(), &header, &rows)?;
    }
    let exists = image.tag.is_empty() || builds.iter().any(|b| b.tags.iter().any(|t| used(t.raw())));
    if !exists {
        bail!(
            "{image} does not exist: push it, or set another tag (`{}`)",
            Target::default().line(&format!("configs set-image TAG {}", shell_quote(stem)))
        );
    }
    Ok(())
}
