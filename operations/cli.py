"""The operator's command `torchlift`."""
