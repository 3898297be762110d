//! ZMTP, the protocol of `ZeroMQ` sockets, over a stream. The crate `omq-proto` has the protocol and does no
//! input or output: a crate whose sockets do reads frames of any length, from any number of clients.

use bytes::Bytes;
use omq_proto::proto::{Connection, ConnectionConfig};
use omq_proto::{Error, Message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Length of a greeting (RFC 37).
pub(crate) const GREETING_LENGTH: usize = 64;

/// One end of a connection.
pub(crate) struct Link<S> {
    stream: S,
    connection: Connection,
    /// What has come of the peer's greeting.
    pub(crate) greeting: Vec<u8>,
    /// How many bytes of the peer were understood.
    pub(crate) understood: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    pub(crate) fn new(stream: S, config: ConnectionConfig) -> Self {
        Self { stream, connection: Connection::new(config), greeting: Vec::new(), understood: 0 }
    }

    pub(crate) async fn ready(&mut self) -> Result<(), Error> {
        while !self.connection.is_ready() {
            self.flush().await?;
            self.read().await?;
        }
        Ok(())
    }

    pub(crate) async fn receive(&mut self) -> Result<Message, Error> {
        loop {
            self.flush().await?;
            if let Some(message) = self.connection.poll_message() {
                return Ok(message);
            }
            self.read().await?;
        }
    }

    pub(crate) async fn send(&mut self, message: &Message) -> Result<(), Error> {
        self.connection.send_message(message)?;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Error> {
        while self.connection.has_pending_transmit() {
            self.write(usize::MAX).await?;
        }
        Ok(())
    }

    /// Sends some of what waits, `limit` bytes at most.
    pub(crate) async fn write(&mut self, limit: usize) -> Result<(), Error> {
        let bytes = self.connection.poll_transmit();
        let written = self.stream.write(&bytes[..limit.min(bytes.len())]).await?;
        self.connection.advance_transmit(written);
        if written == 0 { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) async fn read(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 1024];
        let length = self.stream.read(&mut buffer).await?;
        let bytes = &buffer[..length];
        if bytes.is_empty() {
            return Err(Error::Closed);
        }
        let missing = GREETING_LENGTH - self.greeting.len();
        self.greeting.extend(bytes.iter().take(missing));
        self.connection.handle_input(Bytes::copy_from_slice(bytes))?;
        self.understood += length;
        Ok(())
    }
}
