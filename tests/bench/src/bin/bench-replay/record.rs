//! Records a streaming list.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use kooper_bench::{Kind, client};
use kube::client::Body;

use crate::recording::{Encoding, is_end};
use crate::server::collection;

/// Records the list of a kind in each encoding.
pub(crate) async fn record(kubeconfig: &Path, kind: Kind, folder: &Path) -> Result<()> {
    let client = client(kubeconfig).await?;
    for &encoding in Encoding::of(kind) {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            collection(kind)
        );
        let request = Request::get(path).header("accept", encoding.accept()).body(Body::empty())?;
        let response = client.send(request).await?;
        ensure!(response.status().is_success(), "the server answers {}", response.status());
        let mut body = response.into_body();
        let mut file = BufWriter::new(File::create(encoding.file(folder, kind))?);
        let mut buffer = Vec::new();
        'body: loop {
            let frame = body.frame().await.context("the list has no end")??;
            buffer.extend_from_slice(frame.data_ref().map(|data| &data[..]).unwrap_or_default());
            let mut start = 0;
            while let Some(length) = buffer.get(start..).and_then(|rest| encoding.event(rest)) {
                let event = buffer.get(start..start + length).unwrap_or_default();
                file.write_all(event)?;
                if is_end(event) {
                    break 'body;
                }
                start += length;
            }
            buffer.drain(..start);
        }
        file.flush()?;
    }
    Ok(())
}
