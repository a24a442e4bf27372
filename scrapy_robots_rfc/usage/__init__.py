"""Optional support for robots meta tags, declared uses and TDMRep."""
