//! Requests of a command or a form to an open session: local ports, another token, a refresh.

use super::Serving;
use crate::model::{ClusterEvent, LocalPorts, Problem, ProblemKind, Request, Timestamp};
use crate::supervisor::connect;
use crate::supervisor::connection::ConnectionRequest;
use crate::supervisor::polling::Polling;
use crate::supervisor::task::{ClusterTask, End};

impl ClusterTask {
    /// Handles a request of a holder of the connection.
    pub(super) async fn grant(&mut self, request: ConnectionRequest, s: &mut Serving) -> Option<End> {
        match request {
            ConnectionRequest::Reconnect { attempt } if attempt == self.attempt => return Some(End::Again),
            ConnectionRequest::Connect | ConnectionRequest::Reconnect { .. } => {}
            ConnectionRequest::Refresh => s.polling.request(),
            ConnectionRequest::Forward { services, reply } => {
                self.forwarded.extend(services);
                let open = self.open_ports(s).await;
                self.publish(&s.session);
                // The requester may have given up.
                let _ = reply.send(open);
            }
            ConnectionRequest::Renew { refused, reply } => {
                let is_in_force = s.session.client.token() == refused.as_ref();
                let renewed = if is_in_force { self.renew(s).await } else { Ok(()) };
                // The requester may have given up.
                let _ = reply.send(renewed);
            }
        }
        None
    }

    /// Opens the requested local ports and reports which are open, and why others are not.
    pub(super) async fn open_ports(&mut self, s: &mut Serving) -> Result<LocalPorts, Problem> {
        let Some((tunnel, ports)) = &mut s.session.tunnel else {
            let what = format!("{} is reached directly; nothing to forward", self.spec.name);
            let hint = "use its address";
            return Err(Problem::new(ProblemKind::Other, what, hint, Timestamp::now()));
        };
        let opened = ports.listen(tunnel, &self.spec.name, self.forwarded.iter().copied()).await;
        let open = ports.open().clone();
        let notes = match &opened {
            Ok(note) => note.iter().cloned().collect(),
            Err(problem) => vec![problem.what.clone()],
        };
        self.out.send(ClusterEvent::Ports { open: open.clone(), notes }).await;
        opened.map(|_| open)
    }

    /// Opens the local ports of all services, or closes them.
    pub(super) async fn want_ports(&mut self, open: bool, s: &mut Serving) {
        self.remember(Request::Ports(open));
        if open {
            // A port that cannot be opened is reported as an event.
            drop(self.open_ports(s).await);
        } else {
            self.close_ports(s).await;
        }
        self.publish(&s.session);
    }

    /// Closes the local ports, if any are open.
    pub(super) async fn close_ports(&mut self, s: &mut Serving) {
        if let Some((tunnel, ports)) = s.session.tunnel.as_mut().filter(|(_, ports)| !ports.open().is_empty())
        {
            ports.close(tunnel).await;
            self.out.send(ClusterEvent::Ports { open: LocalPorts::new(), notes: Vec::new() }).await;
        }
    }

    /// Puts another token in force, for everything that uses the session.
    pub(super) async fn renew(&mut self, s: &mut Serving) -> Result<(), Problem> {
        connect::renew_token(&self.spec, &self.tokens, &mut s.session).await?;
        tracing::info!(cluster = %self.spec.name, "a different token was found");
        s.polling = Polling::new(&s.session.client, self.mode);
        self.client = Some(s.session.client.clone());
        self.streams.set_client(&s.session.client);
        self.publish(&s.session);
        Ok(())
    }
}
