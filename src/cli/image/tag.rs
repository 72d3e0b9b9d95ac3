//! The tag of an image, from date and commit, e.g. `20261120-0a1b2c3`.

use super::engine::Engine;
use super::options::ImageOptions;
use crate::cli::tool;
use crate::model::amount::counted;
use anyhow::{Result, bail};
use std::path::Path;

/// The suffix of the tag of an image that contains uncommitted files.
const DIRTY: &str = "-dirty";
/// The tag that moves with each push.
const LATEST: &str = "latest";

/// A tag, and whether the image is the newest of its kind.
pub(super) struct Tag {
    pub tag: String,
    /// Whether it is also called `latest`.
    pub is_latest: bool,
}

impl Tag {
    /// `is_clean`: whether the image contains only committed files, so that it can be built again.
    fn new(tag: String, is_clean: bool) -> Self {
        let is_latest = is_clean && !tag.ends_with(DIRTY) && tag != LATEST;
        Self { tag, is_latest }
    }

    /// The tags.
    pub fn tags(&self) -> Vec<&str> {
        [self.tag.as_str()].into_iter().chain(self.is_latest.then_some(LATEST)).collect()
    }

    /// The names of the image under its tags.
    pub fn names(&self, image: &str) -> Vec<String> {
        self.tags().iter().map(|tag| format!("{image}:{tag}")).collect()
    }
}

/// The commit that is checked out in a directory.
struct Commit {
    /// Its short hash, with the suffix for uncommitted files.
    mark: String,
}

impl Commit {
    fn is_clean(&self) -> bool {
        !self.mark.ends_with(DIRTY)
    }
}

/// The tag of an image to be built.
pub(super) async fn for_build(options: &ImageOptions, folder: &Path) -> Result<Tag> {
    let commit = commit(options, folder).await?;
    match (&options.tag, commit) {
        (Some(tag), commit) => Ok(Tag::new(tag.clone(), commit.is_none_or(|commit| commit.is_clean()))),
        (None, Some(Commit { mark })) => {
            let today = jiff::Timestamp::now().strftime("%Y%m%d");
            Ok(Tag::new(format!("{today}-{mark}"), true))
        }
        (None, None) => bail!("{} is not in a git repository; specify a tag with --tag", folder.display()),
    }
}

/// The tag of an image that was built: the one named, or the newest of the commit.
pub(super) async fn for_push(
    options: &ImageOptions,
    folder: &Path,
    engine: &Engine,
    image: &str,
) -> Result<Tag> {
    if let Some(tag) = &options.tag {
        let name = format!("{image}:{tag}");
        let inspected = engine.quiet(&["image", "inspect", "--format", "{{.Id}}", &name]).await?;
        if inspected.code != 0 {
            bail!("image {name} does not exist on this machine; build it: `{}`", options.build_line());
        }
        // The image itself is the evidence: it has the tag of a commit, or the build gave it `latest`.
        let name = format!("{image}:{LATEST}");
        let newest = engine.quiet(&["image", "inspect", "--format", "{{.Id}}", &name]).await?;
        let is_newest = newest.code == 0 && newest.lines == inspected.lines;
        return Ok(Tag::new(tag.clone(), is_newest));
    }
    let Some(Commit { mark }) = commit(options, folder).await? else {
        bail!("{} is not in a git repository; specify a tag with --tag", folder.display());
    };
    // Listed with the newest first.
    let listed = engine.quiet(&["image", "ls", "--format", "{{.Tag}}", image]).await?;
    let tags = listed.require_success("listing the images of this machine")?;
    let is_of_commit = |tag: &&String| {
        let date = tag.trim().strip_suffix(&mark).and_then(|date| date.strip_suffix('-'));
        date.is_some_and(|date| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()))
    };
    match tags.iter().find(is_of_commit) {
        Some(tag) => Ok(Tag::new(tag.trim().to_owned(), true)),
        None => bail!(
            "no image {image} of commit {mark} on this machine; build it: `{}`, or choose another with --tag",
            options.build_line()
        ),
    }
}

/// The commit of the directory's repository; `None` if there is no repository. Uncommitted files are refused unless
/// they are allowed, because the image could not be reproduced.
async fn commit(options: &ImageOptions, folder: &Path) -> Result<Option<Commit>> {
    let folder = folder.to_string_lossy();
    let git = |words: &[&'static str]| {
        let words = ["git", "-C", &folder].into_iter().chain(words.iter().copied());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let head = tool::run(&git(&["rev-parse", "--short", "HEAD"]), |_| ()).await?;
    let is_hash = |line: &&String| line.len() >= 4 && line.bytes().all(|b| b.is_ascii_hexdigit());
    let Some(hash) = head.lines.iter().rfind(is_hash).filter(|_| head.code == 0) else { return Ok(None) };
    let changed =
        tool::run(&git(&["status", "--porcelain"]), |_| ()).await?.require_success("`git status`")?;
    if !changed.is_empty() && !options.allow_dirty {
        let first = changed[0].trim();
        let are = if changed.len() == 1 { "is" } else { "are" };
        bail!(
            "{} {are} not committed in the repository of {folder}, e.g. `{first}`; commit, or use --allow-dirty",
            counted(changed.len(), "file")
        );
    }
    let dirty = if changed.is_empty() { "" } else { DIRTY };
    Ok(Some(Commit { mark: format!("{hash}{dirty}") }))
}
