"""What a release after this one may do to the database while services and supervisors of this one run."""
