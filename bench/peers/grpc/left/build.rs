//! Client and server of the one service, defined here, so that no protocol buffer compiler is needed.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let call = Method::builder()
        .name("call")
        .route_name("Call")
        .input_type("crate::Question")
        .output_type("crate::Answer")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    Builder::new().compile(&[Service::builder().name("Oracle").package("example").method(call).build()]);
    println!("cargo::rerun-if-changed=build.rs");
}
