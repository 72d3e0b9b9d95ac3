//! The program's own directories, and the sources that are searched for tokens.

use crate::config::{self, Env, Folders};
use crate::model::Secret;
use crate::token;
use anyhow::Context;
use std::path::PathBuf;

/// Creates the program's directories, including the token directory, which users write to.
pub(super) fn make_folders(folders: &Folders, token_sources: &token::TokenSources) -> anyhow::Result<()> {
    let of_tokens = token_sources.folders();
    for folder in [&folders.state, &folders.tokens, &folders.run].into_iter().chain(&of_tokens) {
        config::create_private(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(())
}

/// The sources that are searched for a cluster's token.
pub(super) fn token_sources(env: &Env, folders: &Folders) -> token::TokenSources {
    token::TokenSources {
        variable: env.var("RAY_AUTH_TOKEN").map(Secret::new),
        path_variable: env.var("RAY_AUTH_TOKEN_PATH").map(|p| env.expand(&PathBuf::from(p))),
        cache: folders.tokens.clone(),
        home: env.home(),
    }
}
