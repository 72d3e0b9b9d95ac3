//! Options of `image build` and `image push`.

use super::engine::Kind;
use crate::cli::output;
use crate::model::Target;
use crate::model::command_line::shell_quote;
use crate::operation::Call;
use anyhow::Result;
use clap::Args;

/// Options of both commands.
#[derive(Debug, Args)]
pub struct ImageOptions {
    /// Image name [default: the `image` of `defaults` in clusters.yaml]
    #[arg(long, value_name = "NAME")]
    pub(super) image: Option<String>,
    /// Image tag [default: date and commit, e.g. 20261120-0a1b2c3]
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Option<String>,
    /// Allow uncommitted files; the default tag then ends in -dirty, and `latest` is not moved
    #[arg(long)]
    pub(super) allow_dirty: bool,
    /// Program to build and push with
    #[arg(long, value_enum, default_value = "docker")]
    pub(super) engine: Kind,
    /// Show the commands and calls; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl ImageOptions {
    /// The command line that builds the image of these options.
    pub fn build_line(&self) -> String {
        let mut rest = "image build".to_owned();
        let engine = Some(self.engine.name()).filter(|_| self.engine != Kind::Docker);
        let valued =
            [("--image", self.image.as_deref()), ("--tag", self.tag.as_deref()), ("--engine", engine)];
        for (option, value) in valued {
            if let Some(value) = value {
                rest = format!("{rest} {option} {}", shell_quote(value));
            }
        }
        if self.allow_dirty {
            rest.push_str(" --allow-dirty");
        }
        Target::default().line(&rest)
    }
}

/// Prints what a dry run would do.
pub fn planned(calls: &[Call], as_json: bool) -> Result<()> {
    if as_json {
        return output::json(calls);
    }
    for call in calls {
        println!("{call}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_build_has_the_options_of_the_push() {
        let plain = ImageOptions {
            image: None,
            tag: None,
            allow_dirty: false,
            engine: Kind::Docker,
            dry_run: true,
            json: true,
        };
        assert_eq!(plain.build_line(), "marin-tui image build");
        let (image, tag) = (Some("marin_vllm".to_owned()), Some("a b".to_owned()));
        let all = ImageOptions { image, tag, allow_dirty: true, engine: Kind::Podman, ..plain };
        let line = "marin-tui image build --image marin_vllm --tag 'a b' --engine podman --allow-dirty";
        assert_eq!(all.build_line(), line);
    }
}
