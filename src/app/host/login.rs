//! Logging in over SSH: to the host of the selection or the page, or to the head.

use crate::app::action::context::Context;
use crate::app::action::table::Action;
use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::job::stack_rows::StackSubject;
use crate::app::pages::found;
use crate::app::table::list::Listing;
use crate::app::view::View;
use crate::app::{App, Effect};
use crate::model::cloud::TpuHost;
use crate::model::command_line::shell_quote;
use crate::model::{LogSource, NodeId, Target as Command, Timestamp};

/// The node of a host, and what the host is called if Ray does not list that node.
type Host = (NodeId, String);

impl App {
    /// Logs in to the host of the selection or the page; to the head if there is none.
    pub(in crate::app) fn ssh(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.tpus().is_some() {
            return self.ssh_tpu(now);
        }
        match self.login_here() {
            Ok(Some(host)) => self.at_cluster(|name| Effect::SshHost(name, host.clone())),
            Ok(None) => self.at_cluster(Effect::SshHead),
            Err(why) => {
                self.toasts.answer(why, now);
                Vec::new()
            }
        }
    }

    /// The host to log in to; `None` for the head. An error says why there is no login: the head in place of a host
    /// would be a mistake that the operator does not notice.
    pub(in crate::app) fn login_here(&self) -> Result<Option<TpuHost>, String> {
        let host = self.host_here()?.zip(self.target_cluster());
        host.map_or(Ok(None), |((id, called), cluster)| login(cluster, &id, &called))
    }

    /// The host of the selection or the page; `None` if the page has no host.
    fn host_here(&self) -> Result<Option<Host>, String> {
        match (self.view(), self.target()) {
            (View::JobWorkers(_), _) => self.host_of_worker(),
            (View::Table(page), _) if **page == found::PAGE => Ok(self.host_of_line()),
            (_, Some(Target::Node(_, id))) => Ok(Some((id, format!("node {id}")))),
            (View::Slice(..), _) => Err("no host is selected".to_owned()),
            (_, Some(Target::Hosts(..))) => Err(self.needs_host()),
            (View::Details(page), Some(Target::Chips(..))) => match page.chip_hosts.as_slice() {
                [only] => Ok(Some((*only, format!("node {only}")))),
                _ => Err("the page is not about a single host; select a host in the nodes or slices pane"
                    .to_owned()),
            },
            (View::Details(page), Some(Target::Job(..) | Target::Stacks(..))) => {
                match page.selected_stack() {
                    Some(StackSubject::Group(_)) => Err(self.needs_host()),
                    Some(StackSubject::Worker(process) | StackSubject::Driver(process)) => {
                        Ok(Some((process.node, format!("the node of {}", process.text()))))
                    }
                    None if page.cursor.selected().is_some() => Err("no process is selected".to_owned()),
                    None => Ok(self.host_of_driver()),
                }
            }
            _ => Ok(self.host_of_log()),
        }
    }

    /// The answer to an action on a single host while several hosts are selected.
    pub(in crate::app) fn needs_host(&self) -> String {
        format!("press {} to open it, and select a host there", self.keyboard.keymap.key_of(Action::Open))
    }

    /// The host of the worker under the cursor, or of the driver whose line is under the cursor.
    fn host_of_worker(&self) -> Result<Option<Host>, String> {
        let page = self.workers_page();
        if let Some(worker) = page.and_then(|page| page.worker(&self.fleet)) {
            return Ok(Some((worker.process.node, format!("the node of {}", worker.who()))));
        }
        match page {
            Some(page) if page.is_drivers(&self.fleet) => Ok(self.host_of_driver()),
            _ => Err("no worker is selected".to_owned()),
        }
    }

    /// The host of the driver of the job that an action acts on; `None` if Ray does not report it.
    fn host_of_driver(&self) -> Option<Host> {
        let (_, job) = self.target_job()?;
        Some((job.driver_node?, "the driver's node".to_owned()))
    }

    /// The host of the file with the line under the cursor, in the results of a log search.
    fn host_of_line(&self) -> Option<Host> {
        let (cluster_index, number) = self.listing().and_then(Listing::row_index)?;
        let (file, _) = self.fleet.clusters.get(cluster_index)?.found.line(number)?;
        Some((file.node, "the node of this file".to_owned()))
    }

    /// The host of the log on the screen, if its pane has the focus and it is a file of a host.
    fn host_of_log(&self) -> Option<Host> {
        let is_log = self.page_context() == Context::Log;
        match self.log().filter(|_| is_log)?.source()? {
            LogSource::File { node, .. } => Some((*node, "the node of this log".to_owned())),
            LogSource::Job(_) | LogSource::Monitor(_) => None,
        }
    }
}

/// The login to a node of the cluster; `None` for its head. An error says why the node has none.
fn login(cluster: &Cluster, id: &NodeId, called: &str) -> Result<Option<TpuHost>, String> {
    let Some(node) = cluster.node(id) else {
        return Err(format!("Ray no longer lists {called}, so its address is unknown"));
    };
    let (name, address) = (cluster.node_name(node), &node.address);
    match () {
        () if node.is_head && node.state.is_alive() => return Ok(None),
        () if address.is_empty() => return Err(format!("{name} has no address in Ray")),
        () if node.state.is_alive() => return Ok(Some(TpuHost::of(node))),
        () => {}
    }
    if let Some(successor) = cluster.successor(node) {
        let successor = cluster.node_name(successor);
        return Err(format!(
            "{name} is dead, and its address {address} now belongs to {successor}; log in to that node instead"
        ));
    }
    let line = Command::of(cluster.name()).line(&format!("ssh {}", shell_quote(&address.to_string())));
    Err(format!("{name} is dead, and its address may belong to another machine; to log in anyway: `{line}`"))
}
