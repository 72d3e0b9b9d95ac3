//! `marin-tui add-worker` and `init-worker`.

use super::super::reach::{Progress, Reach, confirm};
use super::{AddArguments, CommonArguments, InitArguments, journal, launch, nodes};
use crate::model::Timestamp;
use crate::model::cloud::TpuHost;
use crate::model::text::printable;
use crate::operation::worker::{self, QueuedRequest, Wish};
use crate::operation::{Services, install_script, start_line, start_ray, startup_script};
use crate::supervisor;
use serde_json::json;
use std::process::ExitCode;

pub(super) async fn add(arguments: &AddArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    if reach.spec.provider == "gcp" {
        anyhow::ensure!(arguments.host.is_none(), "--host is for clusters of provider local; name a --type");
        return add_queued(arguments, reach).await;
    }
    match (&arguments.host, reach.spec.provider.as_str()) {
        (Some(host), "local") => start_local(host, "add-worker", &arguments.common, reach).await,
        (None, "local") => anyhow::bail!("which host? name it with --host ADDRESS"),
        (_, provider) => {
            anyhow::bail!("add-worker is for clusters of provider gcp or local, not `{provider}`")
        }
    }
}

async fn add_queued(arguments: &AddArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let (google, common) = (&reach.options.google, &arguments.common);
    let place = supervisor::tpu_place(&reach.spec).map_err(|p| reach.error(&p))?;
    let launch = launch(reach)?;
    let word = arguments.capacity.name();
    let capacity = reach.settings.capacity(word).ok_or_else(|| anyhow::anyhow!("no capacity {word}"))?;
    let node_type = arguments.node_type.clone().unwrap_or_default();
    let wish = Wish { node_type, capacity, names: names(arguments) };
    let requests = worker::plan(&reach.spec, &launch, &wish, google).map_err(|p| reach.error(&p))?;
    if launch.has_file_mounts {
        eprintln!("file_mounts of the cluster's file are not copied: only `ray up` does that");
    }
    let at = (place.project.as_str(), place.zone.as_str());
    if common.dry_run {
        for request in &requests {
            let url = google.queued_url(request.api, at, &request.name);
            println!("{}", json!({"method": "POST", "url": url, "body": request.body}));
        }
        eprintln!("then: GET its state until it is active, and look until its hosts have joined ray");
        return Ok(ExitCode::SUCCESS);
    }
    let list = requests.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", ");
    let deed = format!("add-worker {list} ({}, {word})", wish.node_type);
    confirm(
        &format!("asks google for {} {} worker(s) of type {}: {list}", requests.len(), word, wish.node_type),
        common.yes,
    )?;
    let mut journal = journal(reach)?;
    journal.note(&deed)?;
    reach.note(&deed, "begun");
    let done = ask_and_wait(&requests, arguments.no_wait, reach).await;
    let outcome = match &done {
        Ok(_) => "done".to_owned(),
        Err(e) => format!("{e:#}"),
    };
    journal.note(&format!("{deed}: {outcome}"))?;
    reach.note(&deed, &outcome);
    let rows = done?;
    if common.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends all, then follows them side by side.
async fn ask_and_wait(
    requests: &[QueuedRequest],
    no_wait: bool,
    reach: &Reach,
) -> anyhow::Result<Vec<serde_json::Value>> {
    let google = &reach.options.google;
    let place = supervisor::tpu_place(&reach.spec).map_err(|p| reach.error(&p))?;
    for request in requests {
        let is_new = worker::ask(google, &place, request).await.map_err(|p| reach.error(&p))?;
        let word = if is_new { "google has the request" } else { "google has it already: it is followed" };
        eprintln!("{}: {word}", request.name);
    }
    if no_wait {
        return Ok(requests.iter().map(|r| json!({"name": r.name, "hosts": [], "joined": false})).collect());
    }
    eprintln!("waiting for capacity, which may take long; ^C leaves the request with google");
    let follow = requests.iter().map(|r| async {
        worker::follow(google, &place, &r.name, |word| eprintln!("{}: {word}", r.name)).await
    });
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for (request, hosts) in requests.iter().zip(futures_util::future::join_all(follow).await) {
        match hosts {
            Ok(hosts) => rows.push((request.name.clone(), hosts)),
            Err(p) => failed.push(reach.error(&p).to_string()),
        }
    }
    let session = reach.connect(&Progress::new()).await?;
    for (name, hosts) in &rows {
        let tell = |words: &str| eprintln!("{name}: {words}");
        if let Err(p) = worker::joined(&session.client, hosts, &[], tell).await {
            failed.push(reach.error(&p).to_string());
        }
    }
    session.close().await;
    anyhow::ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(rows.into_iter().map(|(name, hosts)| json!({"name": name, "hosts": hosts, "joined": true})).collect())
}

fn names(arguments: &AddArguments) -> Vec<String> {
    // Time tells two apart that are added one after another, and a number those that are added together.
    let stem = || format!("ray-worker-manual-{:x}", Timestamp::now().as_millis());
    let stem = arguments.name.clone().unwrap_or_else(stem);
    match arguments.count {
        1 => vec![stem],
        n => (1..=n).map(|i| format!("{stem}-{i}")).collect(),
    }
}

pub(super) async fn init(arguments: &InitArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    match reach.spec.provider.as_str() {
        "local" => start_local(&arguments.worker, "init-worker", &arguments.common, reach).await,
        "gcp" => init_tpu(&arguments.worker, &arguments.common, reach).await,
        provider => anyhow::bail!("init-worker is for clusters of provider gcp or local, not `{provider}`"),
    }
}

/// Starts Ray on a host of a local cluster, and sees it in Ray.
async fn start_local(
    host: &str,
    deed: &str,
    common: &CommonArguments,
    reach: &Reach,
) -> anyhow::Result<ExitCode> {
    let (spec, options) = (&reach.spec, &reach.options);
    let to = supervisor::find_host(spec, options, host, |_| ()).await.map_err(|p| reach.error(&p))?;
    let launch = launch(reach)?;
    let node = launch.find("").map(|(_, node)| node);
    let node = node.ok_or_else(|| anyhow::anyhow!("{} names no way to start a worker", spec.name))?;
    let shown = printable(host).into_owned();
    eprintln!(
        "on {shown}, by ssh: write the token to ~/.ray/auth_token if the cluster wants one, then as a login shell:"
    );
    eprintln!("  export RAY_HEAD_IP=<the head's address in ray>; {}", printable(&start_line(node)));
    eprintln!("then look until ray has a node at {shown}");
    if common.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    confirm(
        &format!("starts ray on {shown} as a worker of {}; a ray that runs there is ended", spec.name),
        common.yes,
    )?;
    let mut journal = journal(reach)?;
    let deed = format!("{deed} {shown}");
    journal.note(&deed)?;
    let session = reach.connect(&Progress::new()).await?;
    let done = async {
        let nodes = nodes(&session, reach).await?;
        let head = nodes.iter().find(|n| n.is_head && n.state.is_alive()).map(|n| n.address.raw().to_owned());
        let head = head.ok_or_else(|| anyhow::anyhow!("{}: ray names no head", spec.name))?;
        let before: Vec<_> = nodes.iter().filter(|n| n.address.raw() == host).map(|n| n.id).collect();
        eprintln!("starting ray on {shown}");
        start_ray(spec, options, &to, node, &head, session.token.as_ref())
            .await
            .map_err(|p| reach.error(&p))?;
        let hosts = [host.to_owned()];
        let tell = |words: &str| eprintln!("{shown}: {words}");
        worker::joined(&session.client, &hosts, &before, tell).await.map_err(|p| reach.error(&p))
    }
    .await;
    session.close().await;
    let outcome = done.as_ref().map_or_else(|e| format!("{e:#}"), |()| "joined".into());
    journal.note(&format!("{deed}: {outcome}"))?;
    reach.note(&deed, &outcome);
    done?;
    if common.json {
        println!("{}", json!({"name": host, "hosts": [host], "joined": true}));
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts the startup script into the TPU VM's metadata, for its next boot, and starts it on each host now.
async fn init_tpu(worker: &str, common: &CommonArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let (spec, options) = (&reach.spec, &reach.options);
    let place = supervisor::tpu_place(spec).map_err(|p| reach.error(&p))?;
    let view = supervisor::ask_cloud(spec, &options.google).await.map_err(|p| reach.error(&p))?;
    let found = worker::find(&view, &place, worker).map_err(|p| reach.error(&p))?;
    let vm = view.vms.iter().find(|vm| found.vm.as_deref() == Some(vm.name.raw()));
    let vm = vm.ok_or_else(|| anyhow::anyhow!("{}: {} has no TPU VM yet", spec.name, printable(worker)))?;
    let launch = launch(reach)?;
    let named = vm.ray_type.as_ref().and_then(|t| launch.find(t.raw()));
    let (kind, node) = named.or_else(|| launch.find(vm.accelerator_type.raw())).ok_or_else(|| {
        anyhow::anyhow!(
            "{}: its file has no worker type for {} ({})",
            spec.name,
            vm.name,
            vm.accelerator_type
        )
    })?;
    let script = startup_script(spec, &launch, node, &Services::at(options.google.endpoints()));
    let script = script.map_err(|p| reach.error(&p))?;
    let hosts: Vec<TpuHost> = vm.logins().collect();
    eprintln!("{} as a worker of type {kind}: its startup script into its metadata, then by ssh on", vm.name);
    for host in &hosts {
        eprintln!("  {}", host.internal);
    }
    eprintln!("then look until its {} hosts have joined ray", hosts.len());
    if common.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    confirm(&format!("starts ray anew on {}; what runs there is ended", vm.name), common.yes)?;
    let mut journal = journal(reach)?;
    let deed = format!("init-worker {}", vm.name);
    journal.note(&deed)?;
    let done = async {
        let at = (place.project.as_str(), place.zone.as_str());
        let set = options.google.set_tpu_metadata(at, vm.name.raw(), "startup-script", &script).await;
        set.map_err(|e| anyhow::anyhow!("{}: {e}; {}", spec.name, e.mend()))?;
        let session = reach.connect(&Progress::new()).await?;
        let nodes = nodes(&session, reach).await?;
        let is_here = |n: &&crate::model::Node| found.hosts.iter().any(|h| h == n.address.raw());
        let before: Vec<_> = nodes.iter().filter(is_here).map(|n| n.id).collect();
        for host in &hosts {
            eprintln!("starting it on {}", host.internal);
            install_script(spec, options, host, &script).await.map_err(|p| reach.error(&p))?;
        }
        let tell = |words: &str| eprintln!("{}: {words}", vm.name);
        let joined = worker::joined(&session.client, &found.hosts, &before, tell).await;
        session.close().await;
        joined.map_err(|p| reach.error(&p))
    }
    .await;
    let outcome = done.as_ref().map_or_else(|e| format!("{e:#}"), |()| "joined".into());
    journal.note(&format!("{deed}: {outcome}"))?;
    reach.note(&deed, &outcome);
    done?;
    if common.json {
        println!("{}", json!({"name": vm.name.raw(), "hosts": found.hosts, "joined": true}));
    }
    Ok(ExitCode::SUCCESS)
}
