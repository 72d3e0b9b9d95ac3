//! The port of a simulated SSH server: open, or closed because the machine is down. A closed port stays bound.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Retry interval when another program has bound the port.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The state watched by the server; every change closes all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doorway {
    state: State,
    cuts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Shut,
    /// Closed permanently.
    Gone,
}

/// Opens and closes a server's port.
#[derive(Debug)]
pub(in crate::demo) struct Door(watch::Sender<Doorway>);

impl Door {
    pub fn open() -> Self {
        Self(watch::Sender::new(Doorway { state: State::Open, cuts: 0 }))
    }

    /// A receiver of the state, for the server.
    pub(super) fn watch(&self) -> watch::Receiver<Doorway> {
        self.0.subscribe()
    }

    /// Whether connections are accepted.
    pub fn is_open(&self) -> bool {
        self.0.borrow().state == State::Open
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.0.send_modify(|d| d.cuts += 1);
    }

    /// Accepts connections again.
    pub fn unlock(&self) {
        self.turn(State::Open);
    }

    /// Closes all connections and refuses new ones.
    pub fn shut(&self) {
        self.turn(State::Shut);
    }

    /// Closes all connections and releases the port permanently.
    pub fn remove(&self) {
        self.turn(State::Gone);
    }

    fn turn(&self, to: State) {
        self.0.send_if_modified(|d| {
            let changes = d.state != to && d.state != State::Gone;
            if changes {
                d.state = to;
            }
            changes
        });
    }
}

/// Waits until the port is open and returns its listener. While the port is closed it stays bound, so that the system
/// does not assign it to another program. `None` once the port is closed permanently.
pub(super) async fn pass<'a>(
    listener: &'a mut Option<TcpListener>,
    address: SocketAddr,
    door: &mut watch::Receiver<Doorway>,
) -> Option<&'a TcpListener> {
    loop {
        let state = door.borrow_and_update().state;
        match state {
            State::Gone => return None,
            State::Shut => {
                drop(listener.take());
                let bound = bind(address);
                // Fails if the control handle was dropped.
                door.changed().await.ok()?;
                *listener = bound.and_then(|socket| socket.listen(BACKLOG)).ok();
            }
            State::Open if listener.is_some() => break,
            State::Open => {
                tokio::time::sleep(RETRY_INTERVAL).await;
                *listener = bind(address).and_then(|socket| socket.listen(BACKLOG)).ok();
            }
        }
    }
    listener.as_ref()
}

/// Binds the port without listening.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Earlier connections may not be fully closed yet.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    /// Retries until a connection is accepted (`is_open`) or refused (otherwise).
    async fn until(address: SocketAddr, is_open: bool) -> Option<TcpStream> {
        let attempts = async {
            loop {
                let stream = TcpStream::connect(address).await;
                if stream.is_ok() == is_open {
                    return stream.ok();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), attempts).await.unwrap()
    }

    #[tokio::test]
    async fn a_shut_port_refuses_and_opens_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door::open();
        let mut watched = door.watch();
        let server = tokio::spawn(async move {
            let mut listener = Some(listener);
            while let Some(listening) = pass(&mut listener, address, &mut watched).await {
                tokio::select! {
                    accepted = listening.accept() => {
                        let (mut stream, _) = accepted.unwrap();
                        let mut cut = watched.clone();
                        tokio::spawn(async move {
                            tokio::select! {
                                _ = stream.read_u8() => {}
                                _ = cut.changed() => {}
                            }
                        });
                    }
                    _ = watched.changed() => {}
                }
            }
        });
        for _ in 0..3 {
            let mut stream = until(address, true).await.unwrap();
            door.shut();
            assert!(!door.is_open() && stream.read_u8().await.is_err(), "the connection is closed");
            until(address, false).await;
            door.unlock();
        }
        door.remove();
        door.unlock();
        server.await.unwrap();
        until(address, false).await;
    }
}
