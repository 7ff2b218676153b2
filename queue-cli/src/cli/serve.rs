//! What can be said of the web page.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where it listens; an address that other machines reach needs a token
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// A file with a token of 16 bytes or more: who has it may look and act. Without one, nobody may act
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Another name by which browsers may ask for it; may be given more than once
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// It is reached by HTTPS only, through a proxy
    #[arg(long)]
    pub(crate) https_only: bool,
    /// Shows payloads and results, which may hold secrets
    #[arg(long)]
    pub(crate) payloads: bool,
}
