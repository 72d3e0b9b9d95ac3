//! The script that joins a machine of Google's to a cluster and keeps it there: `assets/worker-startup.sh`, filled in
//! from the cluster's file.

use super::trouble;
use crate::config::{Launch, NodeLaunch};
use crate::model::{ClusterSpec, Problem};
use crate::ssh::quote;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use std::fmt::Write as _;
use std::time::Duration;

const TEMPLATE: &str = include_str!("../../assets/worker-startup.sh");
/// Between two looks of a worker for its head.
const LOOK: Duration = Duration::from_secs(15);
/// Metadata values may have 256 KiB (Compute Engine, "metadata limitations").
const LIMIT: usize = 256 << 10;

/// Google's services as the worker itself reaches them.
#[derive(Clone, Debug)]
pub struct Services {
    /// Base URL of Compute Engine.
    pub compute: String,
    /// Base URL of Secret Manager.
    pub secret_manager: String,
    /// Pause between two looks for the head.
    pub look: Duration,
}

impl Services {
    /// As these endpoints say.
    pub fn at(endpoints: &crate::gcp::Endpoints) -> Self {
        let (compute, secret_manager) = (endpoints.compute.clone(), endpoints.secret_manager.clone());
        Self { compute, secret_manager, look: LOOK }
    }
}

/// The startup script of a worker of this type. It holds no secret.
pub fn startup_script(
    spec: &ClusterSpec,
    launch: &Launch,
    node: &NodeLaunch,
    services: &Services,
) -> Result<String, Problem> {
    let lacks = |what: &str, mend: &str| trouble(format!("{} has no {what}", spec.name), mend);
    let project = spec.google.project.as_deref();
    let project = project.ok_or_else(|| lacks("`provider.project_id`", "add it to its file"))?;
    let image = node.image.as_deref().or(launch.image.as_deref());
    let image = image.ok_or_else(|| lacks("`docker.image`", "add it: workers start in a container"))?;
    let secret = spec.google.token_secret.as_ref();
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.add_filter("sh", |text: String| quote(&text));
    let values = context! {
        cluster => spec.name.as_str(),
        project, image,
        zone => spec.zone.as_deref().unwrap_or_default(),
        container => launch.container,
        port => launch.port,
        compute => services.compute,
        secret_manager => services.secret_manager,
        secret => secret.map(|s| s.name.as_str()).unwrap_or_default(),
        secret_project => secret.and_then(|s| s.project.as_deref()).unwrap_or(project),
        registry => registry(image).unwrap_or_default(),
        options => node.run_options.join(" ").replace(['\n', '\r'], " "),
        resources => node.resources.to_string(),
        init => each(&node.init),
        join => in_container(node),
        look_seconds => services.look.as_secs_f64(),
    };
    let script = environment.render_str(TEMPLATE, values).map_err(|e| trouble(e.to_string(), ""))?;
    if script.len() > LIMIT {
        let mend = "shorten its setup commands; metadata holds 256 KB";
        return Err(trouble(format!("the startup script of {} has {} bytes", spec.name, script.len()), mend));
    }
    Ok(script)
}

/// The registry of Google's that an image comes from; another's needs no login of ours.
fn registry(image: &str) -> Option<&str> {
    let host = image.split('/').next()?;
    (host.ends_with(".pkg.dev") || host == "gcr.io" || host.ends_with(".gcr.io")).then_some(host)
}

/// The cluster's own commands, one after another as Ray runs them, and then a wait for the end of Ray.
pub(super) fn in_container(node: &NodeLaunch) -> String {
    let mut script = commands(node);
    script.push_str("while grep -qsx raylet /proc/[0-9]*/comm; do sleep 2; done\necho 'ray has ended' >&2\n");
    script
}

/// The setup and start commands.
pub(super) fn commands(node: &NodeLaunch) -> String {
    format!("ulimit -n 65536 2>/dev/null\n{}{}", each(&node.setup), each(&node.start))
}

/// Commands one after another; the first that fails ends them.
pub(super) fn each(commands: &[String]) -> String {
    let mut script = String::new();
    for command in commands {
        // As Ray runs them: a `ray stop` that finds nothing, or a `cd`, must not touch the next.
        let failed = quote(&format!("failed: {command}"));
        let _ = write!(script, "( {command}\n) || {{ printf '%s\\n' {failed} >&2; exit 1; }}\n");
    }
    script
}
