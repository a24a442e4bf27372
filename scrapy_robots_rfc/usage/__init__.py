"""What pages and sites say of the use of their pages: rules, declared uses, TDMRep. A leaf."""
