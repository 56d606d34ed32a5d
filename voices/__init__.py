"""Voice bundles that ship with Voicekin; each folder is one voice."""
