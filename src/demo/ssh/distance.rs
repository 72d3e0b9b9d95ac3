//! A connection with latency: data arrive half a round trip later, and the first data one more round trip later, as
//! after a TCP handshake.

use bytes::{Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Maximum size of a packet in bytes.
const PACKET: usize = 16 << 10;
/// Maximum number of packets in flight per direction; the sender waits when it is reached.
const IN_FLIGHT: usize = 256;

/// Forwards data in both directions between two ends until either is closed.
pub(super) async fn with_latency<A, B>(near: A, far: B, round_trip: Duration) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let opens = Instant::now() + round_trip;
    let (near_in, near_out) = tokio::io::split(near);
    let (far_in, far_out) = tokio::io::split(far);
    let (there, back) =
        (carry(near_in, far_out, opens, round_trip / 2), carry(far_in, near_out, opens, round_trip / 2));
    tokio::try_join!(there, back).map(|_| ())
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    opens: Instant,
    delay: Duration,
) -> io::Result<()> {
    let (sent, mut arriving) = mpsc::channel::<(Instant, Bytes)>(IN_FLIGHT);
    let send = async move {
        let mut packet = BytesMut::new();
        loop {
            packet.reserve(PACKET);
            let read = from.read_buf(&mut packet).await?;
            let arrives = Instant::now().max(opens) + delay;
            if read == 0 || sent.send((arrives, packet.split().freeze())).await.is_err() {
                return Ok(());
            }
        }
    };
    let receive = async move {
        while let Some((arrives, packet)) = arriving.recv().await {
            sleep_until(arrives).await;
            to.write_all(&packet).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(send, receive).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn a_response_takes_one_round_trip_and_the_first_takes_two() {
        let ((mut client, near), (far, mut server)) = (duplex(64), duplex(64));
        tokio::spawn(with_latency(near, far, Duration::from_millis(100)));
        tokio::spawn(async move {
            let mut word = [0; 4];
            while server.read_exact(&mut word).await.is_ok() {
                server.write_all(&word).await.unwrap();
            }
        });
        for expected in [200, 100, 100] {
            let began = Instant::now();
            client.write_all(b"ping").await.unwrap();
            let mut word = [0; 4];
            client.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"ping");
            assert!(began.elapsed() >= Duration::from_millis(expected), "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn data_arrive_in_order_followed_by_the_end() {
        let ((mut client, near), (far, mut server)) = (duplex(64), duplex(64));
        let carried = tokio::spawn(with_latency(near, far, Duration::from_millis(30)));
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let written = text.clone();
        tokio::spawn(async move { client.write_all(&written).await });
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        assert!(read == text);
        drop(server);
        let _ = carried.await.unwrap();
    }
}
