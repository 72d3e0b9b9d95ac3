//! Checks the clusters: their tokens, and whether a head responds.

use super::given::Setup;
use super::report::{Check, Status};
use crate::cli::GlobalArguments;
use crate::cli::directories::token_sources;
use crate::cli::reach::Reach;
use crate::model::amount::counted;
use crate::model::command_line::shell_quote;
use crate::model::{ClusterSpec, Fix, Problem};
use crate::supervisor::TokenManager;
use crate::token::Source;
use futures_util::future::select_ok;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A check of each secret that contains a token, and of each cluster without one.
pub(super) async fn tokens(setup: &Setup) -> Vec<Check> {
    let mut groups: BTreeMap<String, Vec<&ClusterSpec>> = BTreeMap::new();
    for spec in &setup.clusters {
        let secret = spec.google.token_secret.as_ref();
        let of = secret.map_or_else(|| spec.name.to_string(), ToString::to_string);
        groups.entry(of).or_default().push(spec);
    }
    let manager =
        Arc::new(TokenManager::new(token_sources(&setup.env, &setup.folders), setup.google.clone()));
    let mut checks = Vec::new();
    for (of, specs) in groups {
        setup.progress.show(format!("looking up the token of {of}"));
        checks.push(token(setup, &manager, of, &specs).await);
    }
    checks
}

/// Checks the token of clusters that share a secret, and reports the first cluster without a token, if any.
async fn token(setup: &Setup, manager: &Arc<TokenManager>, of: String, specs: &[&ClusterSpec]) -> Check {
    let name = "token";
    let found: Vec<_> = specs.iter().map(|spec| manager.on_this_machine(spec)).collect();
    let shared = match specs.len() {
        1 => String::new(),
        n => format!(", for {}", counted(n, "cluster")),
    };
    let Some(here) = found.iter().find_map(|found| found.as_ref().err()) else {
        let exposed = found.iter().flatten().find(|found| found.exposed).map(|found| &found.source);
        if let Some(Source::File(file)) = exposed {
            let fix = Fix::command("", format!("chmod 600 {}", shell_quote(&file.to_string_lossy())));
            return Check::needs(name, of, format!("others can read {}", file.display()), fix);
        }
        let from = found.first().and_then(|found| found.as_ref().ok()).map(|found| found.source.to_string());
        return Check::new(name, of, Status::Ok, format!("from {}{shared}", from.unwrap_or_default()));
    };
    let named = ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"].iter().any(|var| setup.env.var(var).is_some());
    let secret = match &specs[0].google.token_secret {
        _ if named => return Check::problem(name, of, here),
        Some(secret) => secret,
        None => {
            let what = "none; only a head with token authentication requires one";
            return Check::new(name, of, Status::NotNeeded, what);
        }
    };
    let failed = |of, problem: &Problem| Check::problem(name, of, problem);
    if !setup.fixes {
        return match manager.latest(secret).await {
            Ok((version, _)) => {
                let what = format!("not on this machine; version {version} can be fetched{shared}");
                Check::needs(name, of, what, Fix::command("fetch it", &setup.again))
            }
            Err(problem) => failed(of, &problem),
        };
    }
    match manager.fetch(secret).await {
        Ok(fetched) if fetched.kept => {
            Check::new(name, of, Status::Fixed, format!("fetched version {}{shared}", fetched.version))
        }
        Ok(fetched) => Check::needs(name, of, fetched.failures.join("; "), ""),
        Err(problem) => failed(of, &problem),
    }
}

/// Connects to the chosen cluster, or to all until one responds; also returns the version of its Ray. Nothing is tried
/// unless the previous checks succeeded: connecting would fetch a missing token, which a check must not do.
pub(super) async fn head(setup: &Setup, global: &GlobalArguments, ready: bool) -> (Check, Option<String>) {
    let name = "head";
    let of = global.sources.cluster.clone().unwrap_or_default();
    if setup.clusters.is_empty() {
        return (Check::new(name, of, Status::NotNeeded, "no clusters configured"), None);
    }
    if !ready {
        return (Check::needs(name, of, "not tried: key and token are needed first", ""), None);
    }
    let all = match Reach::all(global, &setup.config, &setup.env) {
        Ok(all) => all,
        Err(e) => return (Check::needs(name, of, format!("{e:#}"), ""), None),
    };
    setup.progress.show(format!("connecting to {}", counted(all.len(), "cluster")));
    let requests = all.iter().map(|reach| Box::pin(answer(setup, reach)));
    match select_ok(requests).await {
        Ok(((cluster, version), _)) => {
            let what = format!("it responds and accepts the token; Ray {version}");
            (Check::new(name, cluster, Status::Ok, what), Some(version))
        }
        Err((cluster, problem)) => {
            let mut check = Check::problem(name, cluster, &problem);
            if all.len() > 1 {
                check = check.among(&format!("none of {} clusters responds", all.len()));
            }
            (check, None)
        }
    }
}

/// The cluster and its Ray's version, from a call that needs the token.
async fn answer(setup: &Setup, reach: &Reach) -> Result<(String, String), (String, Problem)> {
    let name = reach.spec.name.to_string();
    let session = match reach.open(&setup.progress).await {
        Ok(session) => session,
        Err(problem) => return Err((name, problem)),
    };
    let version = session.client.version().await;
    session.close().await;
    match version {
        Ok(identity) => Ok((name, identity.ray_version.shown().to_string())),
        Err(e) => Err((name, e.problem(crate::model::Timestamp::now()))),
    }
}
