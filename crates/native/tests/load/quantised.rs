//! Dequantisation, against the `gguf` package that llama.cpp publishes.

use eager_native::load::{DType, Tensor};

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn every_type_decodes_as_the_reference_does() {
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/quantised_blocks.json")).unwrap();
    let types = [
        ("F16", DType::F16),
        ("BF16", DType::BF16),
        ("Q4_0", DType::Q4_0),
        ("Q4_1", DType::Q4_1),
        ("Q5_0", DType::Q5_0),
        ("Q5_1", DType::Q5_1),
        ("Q8_0", DType::Q8_0),
        ("Q2_K", DType::Q2K),
        ("Q3_K", DType::Q3K),
        ("Q4_K", DType::Q4K),
        ("Q5_K", DType::Q5K),
        ("Q6_K", DType::Q6K),
        ("IQ4_NL", DType::IQ4_NL),
        ("IQ4_XS", DType::IQ4_XS),
    ];
    assert_eq!(fixture.as_object().unwrap().len(), types.len());
    for (name, dtype) in types {
        let data = unhex(fixture[name]["bytes"].as_str().unwrap());
        let expected: Vec<f32> = unhex(fixture[name]["values"].as_str().unwrap())
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(dtype.name(), name);
        assert_eq!(data.len() / dtype.block_bytes() * dtype.block_len(), expected.len(), "{name}");

        let cols = expected.len() / 2;
        let tensor = Tensor { dtype, shape: vec![2, cols], data: &data };
        assert_eq!(tensor.to_f32(), expected, "{name}");

        let mut second = vec![0.0; cols];
        tensor.rows_to_f32(1, 1, &mut second);
        assert_eq!(second, expected[cols..], "{name}, second row");
    }
}

#[test]
fn acorn_is_the_same_model_quantised_and_not() {
    let (small, exact) = (super::acorn_gguf(), super::acorn_folder());
    for name in
        ["token_embd.weight", "blk.0.attn_q.weight", "blk.7.ffn_down.weight", "blk.3.attn_k_norm.weight"]
    {
        let (a, b) = (small.tensor(name).unwrap(), exact.tensor(name).unwrap());
        assert_eq!(a.shape, b.shape, "{name}");
        let (a, b) = (a.to_f32(), b.to_f32());
        let largest = b.iter().fold(0f32, |m, x| m.max(x.abs()));
        for (x, y) in a.iter().zip(&b) {
            // Half a step of a block whose largest number is at most the tensor's.
            assert!((x - y).abs() <= largest / 127.0 * 0.51, "{name}: {x} {y}");
        }
    }
}
