//! The shared connection of a cluster's task: what its holders see, and how many logins the head gets. Uses the
//! system's `ssh` with a simulated Ray head.

use crate::soon::soon;
use crate::spec::spec;
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::demo::{Head, Keys, Scenario, SshServer};
use marin_tui::model::{
    ClusterName, ClusterSpec, HeadAddress, HostName, ProblemKind, Provider, Request, Secret, SshAuth,
};
use marin_tui::supervisor::{self, Connection, ConnectionState, Options, Supervisor};
use marin_tui::token::TokenSources;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A head behind an SSH server, and a home directory to connect from.
pub struct Fixture {
    home: TempDir,
    server: SshServer,
    head: Option<Head>,
    at: (SocketAddr, SocketAddr),
}

impl Fixture {
    pub async fn new(scenario: Scenario) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let head = Head::start(scenario).await.unwrap();
        let keys = Keys::new().unwrap();
        keys.write_client(&home.path().join("key")).unwrap();
        fs::write(home.path().join("ssh_config"), "").unwrap();
        fs::create_dir(home.path().join(".ray")).unwrap();
        let server = SshServer::start(&head, "lab", &keys, Duration::ZERO).await.unwrap();
        let at = (head.dashboard, head.gcs);
        Self { home, server, head: Some(head), at }
    }

    pub fn head(&self) -> &Head {
        self.head.as_ref().unwrap()
    }

    /// Stops Ray on the head; its machine and its sshd keep running.
    fn stop_ray(&mut self) {
        self.head = None;
    }

    async fn start_ray(&mut self) {
        self.head = Some(Head::start_at(Scenario::default(), self.at.0, self.at.1).await.unwrap());
    }

    fn write_token(&self, token: &str) {
        fs::write(self.home.path().join(".ray/auth_token"), token).unwrap();
    }

    fn options(&self) -> Options {
        let home = self.home.path();
        let env = Env::new(&[("HOME", home.to_str().unwrap())], home);
        let token_sources =
            TokenSources { cache: home.join("tokens"), home: Some(home.into()), ..TokenSources::default() };
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), token_sources);
        (options.known_hosts, options.run_dir) = (home.join("known_hosts"), home.join("r"));
        options.ssh_config = Some(home.join("ssh_config"));
        options
    }

    pub fn spec(&self) -> ClusterSpec {
        ClusterSpec {
            provider: Provider::Local,
            head: HeadAddress::Ssh(HostName::parse("127.0.0.1").unwrap()),
            auth: SshAuth {
                user: Some("ray".into()),
                private_key: Some(self.home.path().join("key")),
                proxy_command: None,
                port: Some(self.server.address.port()),
            },
            ..spec("lab")
        }
    }

    /// A console's supervisor; its events are discarded.
    pub fn console(&self) -> (Supervisor, Connection) {
        let (updates, mut receiver) = mpsc::channel(64);
        tokio::spawn(async move { while receiver.recv().await.is_some() {} });
        let supervisor = Supervisor::start(vec![self.spec()], self.options(), &updates);
        let connection = supervisor.connection(&ClusterName::new("lab")).unwrap();
        (supervisor, connection)
    }
}

/// Waits until the connection state satisfies `is`.
async fn until(connection: &Connection, what: &str, is: impl Fn(&ConnectionState) -> bool) {
    let mut state = connection.watch();
    soon(what, state.wait_for(is)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_holders_share_the_login_of_the_task() {
    let fixture = Fixture::new(Scenario::default()).await;
    let (supervisor, connection) = fixture.console();
    assert!(supervisor.connection(&ClusterName::new("none")).is_none());
    // Several at once, before the connection is established, and again afterwards.
    let wait = async || soon("a channel", connection.channel()).await.unwrap();
    let (one, two, three) = tokio::join!(wait(), wait(), wait());
    // Counted only now: another program may have taken a port in the meantime, which requires another login.
    let logins = fixture.server.logins();
    assert!(one.client.is_same(&two.client) && two.client.is_same(&three.client));
    let remote = wait().await.remote.unwrap();
    remote.run("true", Duration::from_secs(10)).await.unwrap();
    assert_eq!(one.login.unwrap().host.as_str(), "127.0.0.1");
    assert_eq!(fixture.server.logins(), logins);
    supervisor.shutdown().await;
    assert!(connection.channel().await.unwrap_err().what.contains("closed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_ray_behind_a_working_login_requires_no_further_login() {
    let mut fixture = Fixture::new(Scenario::default()).await;
    let attached = supervisor::attach(fixture.spec(), 0, fixture.options());
    let connection = &attached.connection;
    soon("a channel", connection.channel()).await.unwrap();
    let logins = fixture.server.logins();
    fixture.stop_ray();
    for _ in 0..3 {
        let problem = soon("an error", connection.channel()).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::DashboardSilent, "{problem:?}");
        assert!(problem.what.contains("Ray is not running"), "{problem:?}");
    }
    fixture.start_ray().await;
    soon("a channel to the new Ray", connection.channel()).await.unwrap();
    assert_eq!(fixture.server.logins(), logins);
    attached.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_restores_a_lost_connection_without_polling() {
    let fixture = Fixture::new(Scenario::default()).await;
    let attached = supervisor::attach(fixture.spec(), 0, fixture.options());
    let connection = &attached.connection;
    let before = soon("a channel", connection.channel()).await.unwrap();
    fixture.server.drop_connections();
    // A request at the moment of the loss gets the next connection, not the error of the lost one.
    let after = soon("a channel over another connection", connection.channel()).await.unwrap();
    let logins = fixture.server.logins();
    assert!(logins >= 2);
    soon("the current connection", async {
        // A newer connection is kept.
        connection.reconnect(&before).await;
        connection.channel().await.unwrap();
    })
    .await;
    assert_eq!(fixture.server.logins(), logins);
    connection.reconnect(&after).await;
    // Reconnects automatically, without a waiting request.
    fixture.server.drop_connections();
    until(connection, "a connection", |s| matches!(s, ConnectionState::Up(_))).await;
    let requests = fixture.head().cost().requests;
    let tables =
        requests.keys().filter(|r| r.contains("GetAll") || r.contains("/nodes") || r.ends_with("/jobs/"));
    assert_eq!(tables.count(), 0, "{requests:?}");
    attached.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_reported_to_waiters_and_a_later_request_retries() {
    let fixture = Fixture::new(Scenario::default()).await;
    let key = fixture.home.path().join("key");
    fs::rename(&key, key.with_extension("away")).unwrap();
    let attached = supervisor::attach(fixture.spec(), 0, fixture.options());
    let connection = &attached.connection;
    let problem = soon("the error", connection.channel()).await.unwrap_err();
    assert!(problem.what.contains("key"), "{problem:?}");
    until(connection, "the same", |s| matches!(s, ConnectionState::Down { is_lost: false, .. })).await;
    fs::rename(key.with_extension("away"), &key).unwrap();
    soon("a channel", connection.channel()).await.unwrap();
    attached.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_replaced_for_all_holders_of_the_connection() {
    let scenario = Scenario { token: Some(Secret::new("first-token")), ..Scenario::default() };
    let fixture = Fixture::new(scenario).await;
    fixture.write_token("first-token");
    let (supervisor, connection) = fixture.console();
    let before = soon("a channel", connection.channel()).await.unwrap();
    assert_eq!(before.token.as_ref().map(Secret::expose), Some("first-token"));
    let logins = fixture.server.logins();
    fixture.head().set_token(Some(Secret::new("second-token")));
    let problem = soon("a rejected token", connection.channel()).await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::TokenRefused, "{problem:?}");
    fixture.write_token("second-token");
    let after = soon("a channel", connection.channel()).await.unwrap();
    assert_eq!(after.token.as_ref().map(Secret::expose), Some("second-token"));
    supervisor.ask(&ClusterName::new("lab"), Request::Refresh);
    let is_current =
        |s: &ConnectionState| matches!(s, ConnectionState::Up(c) if c.client.is_same(&after.client));
    until(&connection, "the same client for the task", is_current).await;
    assert_eq!(fixture.server.logins(), logins);
    supervisor.shutdown().await;
}
